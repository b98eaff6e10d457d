"""In which order the payloads of a commit were made, as far as its lines tell.

Calls of a session run side by side, and their lines stand in the order of the calls, not of what happened. But each
artifact has an id that is greater than all before it, drawn together with the payloads that the artifact names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reenact.store.naming import named_by, part, read_lines

EFFECT = ["output", "outcome"]


class Making:
    """What one commit of a session names. The response of an attempt that failed may lie anywhere."""

    def __init__(self, body: bytes) -> None:
        self._groups: list[tuple[str, list[str]]] = []
        self._events: list[list[str]] = []
        self._anywhere: set[str] = set()
        self._responses: dict[str, list[str]] = {}
        for line in read_lines(body):
            self._take(line)
        for responses in self._responses.values():
            self._anywhere.update(responses)

    def chains(self) -> list[list[str]]:
        """Lists of commitments, the payloads of each of which were made in this order."""
        made = [commitment for _, group in sorted(self._groups) for commitment in group]
        anywhere = self._anywhere.union(*self._events)
        return [[commitment for commitment in dict.fromkeys(made) if commitment not in anywhere], *self._events]

    def _take(self, line: Mapping[str, Any]) -> None:
        kind, named = line.get("kind"), named_by(line)
        commitments = [item.commitment for item in named]
        if kind == "attempt":
            trace_id = str(part(line, "attempt").get("trace_id"))
            self._anywhere.update(self._responses.get(trace_id, ()))
            self._responses[trace_id] = commitments
        elif kind == "entry":
            entry = part(line, "entry")
            if [item.place for item in named] == EFFECT:
                # The output is put away before the raw response that it was made from.
                response = self._responses.pop(str(entry.get("trace_id")), [])
                commitments = [commitments[0], *response, commitments[1]]
            self._groups.append((str(entry.get("artifact_id")), commitments))
        else:
            self._events.append(commitments)
