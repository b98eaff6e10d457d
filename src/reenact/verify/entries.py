"""The chain of one trace: which entry may follow which. `docs/spec/entry_and_artifacts.md` has the same list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reenact.values.digest import ZERO_DIGEST, digest
from reenact.verify.report import Problem

FIRST: Final = ("PENDING", "PENDING", "action_request")
FOLLOWING: Final = frozenset(
    {
        ("PENDING", "AUTHORIZED", "supervisor_decision"),
        ("PENDING", "DENIED", "supervisor_decision"),
        ("AUTHORIZED", "EXECUTING", "tool_call"),
        ("EXECUTING", "COMPLETED", "tool_effect"),
        ("EXECUTING", "FAILED", "tool_effect"),
    }
)
TERMINAL: Final = frozenset({"COMPLETED", "FAILED", "DENIED"})


class EntryChain:
    """Folds entries to a state. An entry is applied whether it fits or not, so that reading can go on."""

    __slots__ = ("head", "sequence", "state")

    def __init__(self) -> None:
        self.sequence = 0
        self.head = ZERO_DIGEST
        self.state = "PENDING"

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL

    def append(self, entry: Mapping[str, Any]) -> Problem | None:
        """Apply `entry` and return what is wrong with it, the first thing in the format's order of checks."""
        problem = self._check(entry)
        self.sequence = entry["sequence_number"]
        self.head = entry["entry_digest"]
        self.state = entry["to_state"]
        return problem

    def _check(self, entry: Mapping[str, Any]) -> Problem | None:
        number, kind = entry["sequence_number"], entry["artifact_type"]
        if number != self.sequence + 1:
            return Problem("STATE_SEQUENCE_GAP", "the entry's sequence number", self.sequence + 1, number)
        if entry["prev_entry_digest"] != self.head:
            what = "the digest of the entry before"
            return Problem("STATE_CHECKSUM_MISMATCH", what, self.head, entry["prev_entry_digest"])
        if entry["from_state"] != self.state:
            what = "the state that the entry starts from"
            return Problem("STATE_INVALID_TRANSITION", what, self.state, entry["from_state"])
        step = (entry["from_state"], entry["to_state"], kind)
        if step != FIRST if number == 1 else step not in FOLLOWING:
            what = f"{step[0]} to {step[1]} by {kind} is no transition of entry {number}"
            return Problem("STATE_INVALID_TRANSITION", what)
        if kind == "tool_call" and entry.get("tool_call_id") is None:
            return Problem("MISSING_TOOL_CALL_ID", "a tool_call entry names no tool_call_id")
        recomputed = entry_digest(entry)
        if entry["entry_digest"] != recomputed:
            return Problem("STATE_CHECKSUM_MISMATCH", "entry_digest", recomputed, entry["entry_digest"])
        return None


def entry_digest(entry: Mapping[str, Any]) -> str:
    """Over the entry without its digest; optional keys count as null when absent."""
    covered = {"tool_call_id": None, "idempotency_key": None, **entry}
    covered.pop("entry_digest", None)
    return digest(covered)
