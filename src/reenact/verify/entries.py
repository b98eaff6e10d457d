"""The chain of one trace: which entry may follow which, and an entry against the artifact beside it.

`docs/spec/entry_and_artifacts.md` has the same list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reenact.values.digest import ZERO_DIGEST, digest
from reenact.verify.lines import EntryLine
from reenact.verify.report import Problem, first_difference
from reenact.verify.shapes import ActionRequest, AnyArtifact, SupervisorDecision, ToolCall, ToolEffect

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


def artifact_problem(line: EntryLine, artifact: Mapping[str, Any], plan_id: str) -> Problem | None:
    recomputed = digest({key: item for key, item in artifact.items() if key != "_digest"})
    if line.artifact.digest != recomputed:
        return Problem("ARTIFACT_DIGEST", "_digest of the artifact", recomputed, line.artifact.digest)
    if line.artifact.plan_id != plan_id:
        return Problem("ARTIFACT_LINK", "the artifact's plan_id", plan_id, line.artifact.plan_id)
    return None


def link_problem(line: EntryLine) -> Problem | None:
    """The entry against the artifact beside it."""
    entry, artifact = line.entry, line.artifact
    kind = type(artifact).__struct_config__.tag
    called = isinstance(artifact, ToolCall | ToolEffect)
    pairs: list[tuple[str, object, object]] = [
        ("the entry's artifact_type", str(kind).removeprefix("talos.tga."), entry.artifact_type),
        ("the entry's artifact_id", _id_of(artifact), entry.artifact_id),
        ("the entry's artifact_digest", artifact.digest, entry.artifact_digest),
        ("the entry's trace_id", artifact.trace_id, entry.trace_id),
        ("the entry's ts", artifact.ts, entry.ts),
    ]
    if not called:
        pairs.append(("the entry's tool_call_id", None, entry.tool_call_id))
        pairs.append(("the entry's idempotency_key", None, entry.idempotency_key))
    return first_difference("ARTIFACT_LINK", pairs)


def _id_of(artifact: AnyArtifact) -> str:
    if isinstance(artifact, ActionRequest):
        return artifact.action_request_id
    if isinstance(artifact, SupervisorDecision):
        return artifact.supervisor_decision_id
    return artifact.tool_call_id if isinstance(artifact, ToolCall) else artifact.tool_effect_id
