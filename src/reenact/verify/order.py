"""Where in a commit a line may stand. `docs/spec/run_chain.md`, "Order within a commit", has the same list."""

from __future__ import annotations

from typing import Final

from reenact.verify.report import Problem

RANKS: Final = {
    "commit": 0,
    "run": 1,
    "event": 2,
    "vote": 3,
    "attempt": 4,
    "entry": 4,
    "checkpoint": 5,
    "run_checkpoint": 6,
    "seal": 7,
}
ONCE: Final = frozenset({"run", "run_checkpoint", "seal"})


class CommitOrder:
    """Follows one commit, line by line."""

    def __init__(self) -> None:
        self.lines = 0
        self._rank = 0
        self._kind = "commit"
        self._event_ts = ""
        self._unit: str | None = None  # the trace whose lines stand together here
        self._units: set[str] = set()
        self._index = -1
        self._checkpoint_index = -1

    def place(self, kind: str) -> Problem | None:
        """Take note of a line of this kind."""
        rank = RANKS[kind]
        misplaced = rank < self._rank or (kind in ONCE and kind == self._kind)
        before, self._rank, self._kind = self._kind, max(rank, self._rank), kind
        self.lines += 1
        if misplaced:
            return Problem("LINE_ORDER", f"a line of kind {kind} stands after one of kind {before}")
        return None

    def event(self, ts: str) -> Problem | None:
        """Take note of an event's time; call `place` first."""
        before, self._event_ts = self._event_ts, ts
        if ts < before:
            return Problem("LINE_ORDER", "the events of a commit are not in the order of their times")
        return None

    def unit(self, trace_id: str, index: int) -> Problem | None:
        """Take note of an attempt or entry of a trace. One that begins here has the highest index so far."""
        if trace_id == self._unit:
            return None
        self._unit = trace_id
        if trace_id in self._units:
            return Problem("LINE_ORDER", "the lines of one trace do not stand together")
        self._units.add(trace_id)
        before, self._index = self._index, index
        if index <= before:
            return Problem("LINE_ORDER", "traces do not stand in the order of their steps")
        return None

    def checkpoint(self, index: int) -> Problem | None:
        """Take note of a trace's checkpoint; call `place` first."""
        before, self._checkpoint_index = self._checkpoint_index, index
        if index <= before:
            return Problem("LINE_ORDER", "checkpoints do not stand in the order of their steps")
        return None
