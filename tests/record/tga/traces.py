"""Traces made of the few fields that a vector gives: everything else is filled in so that it fits."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from reenact.contracts.artifacts import (
    ActionRequest,
    Artifact,
    EffectOutcome,
    LogEntry,
    Proposal,
    Resource,
    SupervisorDecision,
    ToolCall,
    ToolEffect,
)
from reenact.journal import chain

TRACE = "01936a8b-4c2d-7000-8001-00000000aaaa"
TS = "2026-01-01T00:00:00.000Z"
ZERO = "0" * 64


class Linked(NamedTuple):
    entry: LogEntry
    artifact: Artifact


def linked(partial: list[dict[str, Any]]) -> list[Linked]:
    """Entries with their artifacts, chained; what a vector states stands as it is stated."""
    made: list[Linked] = []
    before: dict[str, Artifact] = {}
    for index, given in enumerate(partial):
        kind = given["artifact_type"]
        artifact = artifact_of(kind, index, given, before)
        before[kind] = artifact
        head = str(made[-1].entry.entry_digest) if made else ZERO
        made.append(Linked(entry_of(artifact, index, given, head), artifact))
    return made


def entry_of(artifact: Artifact, index: int, given: dict[str, Any], head: str) -> LogEntry:
    kind = given["artifact_type"]
    own = getattr(artifact, chain.ARTIFACT_ID_FIELD[kind])
    called = own if kind == "tool_call" else None
    entry = LogEntry(
        artifact_digest=str(artifact.digest),
        artifact_id=own,
        artifact_type=kind,
        from_state=given["from_state"],
        idempotency_key=given.get("idempotency_key"),
        prev_entry_digest=given.get("prev_entry_digest", head),
        sequence_number=given.get("sequence_number", index + 1),
        to_state=given["to_state"],
        tool_call_id=given.get("tool_call_id", called),
        trace_id=TRACE,
        ts=TS,
    )
    return replace(entry, entry_digest=chain.entry_digest(entry))


def artifact_of(kind: str, index: int, given: dict[str, Any], before: dict[str, Artifact]) -> Artifact:
    own = f"01936a8b-4c2d-7000-8001-0000000000{index:02d}"
    common: dict[str, Any] = {"plan_id": TRACE, "trace_id": TRACE, "ts": TS}
    proposal = Proposal(args={"x": 1}, tool_name="create-pr", tool_server="mcp-github")
    request, decision, call = (before.get(name) for name in ("action_request", "supervisor_decision", "tool_call"))
    made: Artifact
    if kind == "action_request":
        made = ActionRequest(
            action_request_id=own, agent_id=TRACE, intent="Create a pull request", proposal=proposal,
            resources=[Resource(id="repo", kind="repo")], risk_level="WRITE", **common,
        )  # fmt: skip
    elif kind == "supervisor_decision":
        made = SupervisorDecision(
            action_request_digest=digest_of(request), action_request_id=getattr(request, "action_request_id", TRACE),
            decision="DENY" if given["to_state"] == "DENIED" else "APPROVE", rationale="for the test",
            minted_capability=UNSET if given["to_state"] == "DENIED" else "a.capability.jws",
            supervisor_decision_id=own, **common,
        )  # fmt: skip
    elif kind == "tool_call":
        made = ToolCall(
            call=proposal, capability_digest=ZERO, idempotency_key=given.get("idempotency_key") or "k",
            supervisor_decision_digest=digest_of(decision),
            supervisor_decision_id=getattr(decision, "supervisor_decision_id", TRACE),
            tool_call_id=given.get("tool_call_id") or own, **common,
        )  # fmt: skip
    else:
        made = ToolEffect(
            outcome=EffectOutcome(status="SUCCESS"), tool_call_digest=digest_of(call),
            tool_call_id=getattr(call, "tool_call_id", TRACE), tool_effect_id=own, **common,
        )  # fmt: skip
    return replace(made, digest=chain.artifact_digest(made))


def digest_of(artifact: Artifact | None) -> str:
    return ZERO if artifact is None else str(artifact.digest)
