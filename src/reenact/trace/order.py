"""What may follow what in a log: one header, first; a result after its call, and one of each for an id."""

from __future__ import annotations

from typing import Final, NamedTuple

from reenact.trace.events import REPLAY_VERSION, ReplayEvent, ReplayHeader, ToolCall, ToolResult
from reenact.trace.seen import MOST_IN_MEMORY, Place, SeenIds

MOST_OPEN: Final = MOST_IN_MEMORY


class Problem(NamedTuple):
    """What is wrong at a line; `code` is stable."""

    code: str
    message: str
    place: Place


class Order:
    """The state of a log after the events so far."""

    def __init__(self, most: int = MOST_IN_MEMORY) -> None:
        self._has_header = False
        self._is_first = True
        self._seen = SeenIds(most)
        self._open: set[str] = set()

    def problem(self, event: ReplayEvent, place: Place) -> Problem | None:
        """What is wrong with `event` at this place; where nothing is, it counts from now on."""
        first, self._is_first = self._is_first, False
        if isinstance(event, ReplayHeader):
            return self._header(event, place)
        if first and not self._has_header:
            return Problem("REPLAY_HEADER_MISSING", "the first line is no ReplayHeader: the beginning is lost", place)
        if isinstance(event, ToolCall):
            return self._call(event, place)
        return self._result(event, place) if isinstance(event, ToolResult) else None

    def at_end(self) -> Problem | None:
        """An id that stands twice, far apart."""
        twice = self._seen.repeated()
        if twice is None:
            return None
        return Problem("REPLAY_ID_REPEATED", f"the id of the ToolCall in line {twice[0].line} stands again", twice[1])

    def close(self) -> None:
        self._seen.close()

    def _header(self, event: ReplayHeader, place: Place) -> Problem | None:
        if self._has_header:
            return Problem("REPLAY_HEADER_REPEATED", "a second ReplayHeader: two logs were put together", place)
        self._has_header = True
        if place.line != 1:
            return Problem("REPLAY_HEADER_REPEATED", "a ReplayHeader that is not the first line", place)
        if event.replay_version > REPLAY_VERSION:
            message = (
                f"replay_version {event.replay_version} is newer than {REPLAY_VERSION}, which this Reenact reads; "
                "use a newer one"
            )
            return Problem("REPLAY_VERSION_UNKNOWN", message, place)
        return None

    def _call(self, event: ToolCall, place: Place) -> Problem | None:
        earlier = self._seen.add(event.id, place)
        if earlier is not None:
            message = f"a second ToolCall with the id {event.id!r}; the first is in line {earlier.line}"
            return Problem("REPLAY_ID_REPEATED", message, place)
        if len(self._open) >= MOST_OPEN:
            return Problem("REPLAY_TOO_MANY_OPEN", f"more than {MOST_OPEN} calls wait for their result", place)
        self._open.add(event.id)
        return None

    def _result(self, event: ToolResult, place: Place) -> Problem | None:
        if event.id in self._open:
            self._open.remove(event.id)
            return None
        call = self._seen.find(event.id)
        if call is None:
            return Problem("REPLAY_RESULT_ORPHAN", f"a ToolResult without its ToolCall, {event.id!r}", place)
        message = f"a second ToolResult for the id {event.id!r} of the ToolCall in line {call.line}"
        return Problem("REPLAY_RESULT_REPEATED", message, place)
