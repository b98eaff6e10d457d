"""The life of one call against a model of it: what fits is applied, what does not has the code of its first fault."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from reenact.contracts.artifacts import (
    ActionRequest,
    Artifact,
    EffectOutcome,
    LogEntry,
    Proposal,
    Resource,
    State,
    SupervisorDecision,
    ToolCall,
    ToolEffect,
)
from reenact.errors import StateError
from reenact.journal import chain
from reenact.journal.fold import TraceFold
from reenact.journal.machine import OUTPUT, TERMINAL, TRANSITIONS
from reenact.values.clock import FixedClock
from reenact.values.digest import ZERO_DIGEST

STATES: list[State] = ["PENDING", "AUTHORIZED", "EXECUTING", "COMPLETED", "FAILED", "DENIED"]
# The contract's own sentence, written down again: (from, to) → artifact.
ALLOWED = {
    ("PENDING", "AUTHORIZED"): "supervisor_decision",
    ("PENDING", "DENIED"): "supervisor_decision",
    ("AUTHORIZED", "EXECUTING"): "tool_call",
    ("EXECUTING", "COMPLETED"): "tool_effect",
    ("EXECUTING", "FAILED"): "tool_effect",
}
KINDS = ["action_request", "supervisor_decision", "tool_call", "tool_effect"]
FAULTS = ["sequence", "prev", "from", "tool_call_id", "entry_digest", "artifact", "link", "other_trace"]


def test_the_table_is_the_contract_s() -> None:
    assert {**ALLOWED, ("PENDING", "PENDING"): "action_request"} == TRANSITIONS
    assert set(TERMINAL) == {"COMPLETED", "FAILED", "DENIED"}
    assert set(OUTPUT) == set(STATES)
    assert not any(source in TERMINAL for source, _ in TRANSITIONS)


class TraceMachine(RuleBasedStateMachine):
    """Random entries, each right or with one thing wrong, offered to a trace."""

    @initialize()
    def begin(self) -> None:
        self.clock = FixedClock()
        self.trace = TraceFold(self.clock.uuid7())
        self.state = "PENDING"
        self.entries: list[LogEntry] = []
        self.ids: dict[str, tuple[str, str]] = {}
        """artifact type → (id, digest) of the one that was taken"""

    def artifact(self, kind: str, *, good: bool, wrong_link: bool = False) -> tuple[Artifact, str]:
        own, ts = self.clock.uuid7(), self.clock.timestamp()
        common: dict[str, Any] = {"trace_id": self.trace.trace_id, "plan_id": "p", "ts": ts}
        proposal = Proposal(args={"$commit": "0" * 64}, tool_name="t", tool_server="s")
        before = {
            "supervisor_decision": "action_request",
            "tool_call": "supervisor_decision",
            "tool_effect": "tool_call",
        }
        link = self.ids.get(before.get(kind, ""), ("none", ZERO_DIGEST))
        if wrong_link:
            link = (link[0], "f" * 64)
        if kind == "action_request":
            made: Artifact = ActionRequest(
                action_request_id=own, agent_id="a", intent="to test it", proposal=proposal,
                resources=[Resource(id="r", kind="service")], risk_level="READ", **common,
            )  # fmt: skip
        elif kind == "supervisor_decision":
            made = SupervisorDecision(
                action_request_id=link[0], action_request_digest=link[1], decision="APPROVE" if good else "DENY",
                rationale="because it may", supervisor_decision_id=own, **common,
            )  # fmt: skip
        elif kind == "tool_call":
            made = ToolCall(
                call=proposal, capability_digest="0" * 64, idempotency_key="k", supervisor_decision_id=link[0],
                supervisor_decision_digest=link[1], tool_call_id=own, **common,
            )  # fmt: skip
        else:
            made = ToolEffect(
                outcome=EffectOutcome(status="SUCCESS"), tool_call_id=link[0], tool_call_digest=link[1],
                tool_effect_id=own, **common,
            )  # fmt: skip
        return made, own

    def logged(self, kind: str, target: str, **faults: bool) -> chain.Logged:
        made, own = self.artifact(kind, good=target != "DENIED", wrong_link=faults.get("link", False))
        head = self.entries[-1].entry_digest if self.entries else ZERO_DIGEST
        logged = chain.log(
            made,
            kind,  # type: ignore[arg-type]
            own,
            sequence=len(self.entries) + 1 + faults.get("sequence", False),
            prev="e" * 64 if faults.get("prev") else str(head),
            from_state="FAILED" if faults.get("from") else self.state,  # type: ignore[arg-type]
            to_state=target,  # type: ignore[arg-type]
            tool_call_id=own if kind == "tool_call" and not faults.get("tool_call_id") else None,
        )
        entry, artifact = logged.entry, logged.artifact
        if faults.get("entry_digest"):
            entry = replace(entry, entry_digest="d" * 64)
        if faults.get("artifact"):
            artifact = replace(artifact, plan_id="another")
        if faults.get("other_trace"):
            artifact = replace(artifact, trace_id=self.clock.uuid7())
        return chain.Logged(entry, artifact, logged.line)

    def offer(self, kind: str, target: str, faults: set[str]) -> str | None:
        logged = self.logged(kind, target, **dict.fromkeys(faults, True))
        try:
            self.trace.apply(logged.entry, logged.artifact)
        except StateError as refused:
            return refused.code
        self.entries.append(logged.entry)
        self.ids[kind] = (logged.entry.artifact_id, str(logged.artifact.digest))
        self.state = target
        return None

    def expected(self, kind: str, target: str, faults: set[str]) -> str | None:
        """The contract's order: sequence, previous digest, transition, tool_call_id, digests."""
        if "sequence" in faults:
            return "STATE_SEQUENCE_GAP"
        if "prev" in faults:
            return "STATE_CHECKSUM_MISMATCH"
        first = not self.entries and (self.state, target, kind) == ("PENDING", "PENDING", "action_request")
        later = bool(self.entries) and ALLOWED.get((self.state, target)) == kind
        if ("from" in faults and self.state != "FAILED") or not (first or later):
            return "STATE_INVALID_TRANSITION"
        if kind == "tool_call" and "tool_call_id" in faults:
            return "MISSING_TOOL_CALL_ID"
        if faults & {"entry_digest", "artifact", "other_trace"} or ("link" in faults and kind != "action_request"):
            return "STATE_CHECKSUM_MISMATCH"
        return None

    @rule(
        kind=st.sampled_from(KINDS),
        to_state=st.sampled_from(STATES),
        faults=st.sets(st.sampled_from(FAULTS), max_size=3),
    )
    def offer_anything(self, kind: str, to_state: str, faults: set[str]) -> None:
        expected = self.expected(kind, to_state, faults)
        before = len(self.entries)
        assert self.offer(kind, to_state, faults) == expected
        assert len(self.entries) == before + (expected is None)

    @precondition(lambda self: self.state not in TERMINAL)
    @rule(good=st.booleans())
    def offer_what_fits(self, good: bool) -> None:
        step = {
            0: ("action_request", "PENDING"),
            1: ("supervisor_decision", "AUTHORIZED" if good else "DENIED"),
            2: ("tool_call", "EXECUTING"),
            3: ("tool_effect", "COMPLETED" if good else "FAILED"),
        }[len(self.entries)]
        assert self.offer(*step, set()) is None

    @invariant()
    def the_trace_is_where_the_model_is(self) -> None:
        if not hasattr(self, "trace"):
            return
        head = self.entries[-1].entry_digest if self.entries else ZERO_DIGEST
        assert (self.trace.state, self.trace.sequence, self.trace.head) == (self.state, len(self.entries), head)
        assert self.trace.terminal == (self.state in TERMINAL)


TestTrace = TraceMachine.TestCase
TestTrace.settings = settings(max_examples=150, stateful_step_count=15)
