"""The four artifacts of a call, filled in as the format says: never the goal, the arguments or a tool's words."""

from __future__ import annotations

from hashlib import sha256
from typing import cast

import msgspec

from reenact.contracts.artifacts import (
    ActionRequest,
    DocumentHash,
    EffectError,
    EffectOutcome,
    EffectStatus,
    Meta,
    Proposal,
    SupervisorDecision,
    ToolCall,
    ToolEffect,
)
from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.references import is_secret
from reenact.journal.chain import Logged, log
from reenact.journal.fold import TraceFold
from reenact.policy.budget import NO_AMOUNTS
from reenact.policy.cost import cents
from reenact.runtime.gates.verdict import Approval, Refusal
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Execution
from reenact.values.canonical import canonicalize
from reenact.values.clock import format_ts
from reenact.values.digest import hmac_hex


def request(ex: Execution, step: PlannedStep, parameters: dict[str, object], commitment: str) -> Logged:
    """The first entry of a trace."""
    trace_id, ts = ex.door.uuid7(), ex.door.timestamp()
    meta: Meta = {
        "run_id": ex.run_id,
        "step_id": step.step_id,
        "step_index": step.index,
        "turn": step.turn,
        "skill_id": step.skill_id,
        "skill_version": step.skill_version,
        "definition_digest": step.definition_digest,
        "idempotency_source": "trace" if step.caller_key is None else "caller",
    }
    if step.caller_key is not None:
        meta["key"] = ex.book.put_as_it_is(ex.book.redactor.redact_text(step.caller_key))[0]
    action_request_id = ex.door.uuid7()
    public = shown(ex, step, parameters)
    artifact = ActionRequest(
        action_request_id=action_request_id,
        agent_id=ex.plan.agent_id,
        intent=f"Run {step.skill_id}@{step.skill_version or 'unknown'} for step {step.step_id}",
        meta=meta,
        plan_id=ex.plan.plan_id,
        proposal=Proposal(args=args(public, commitment), tool_name=step.tool, tool_server=step.server),
        resources=step.resources(public),
        risk_level=step.risk_level(parameters),
        trace_id=trace_id,
        ts=ts,
    )
    return log(
        artifact,
        "action_request",
        action_request_id,
        sequence=1,
        prev="0" * 64,
        from_state="PENDING",
        to_state="PENDING",
    )


def args(public: dict[str, object], commitment: str) -> dict[str, object]:
    """The commitment, and the fields that the skill declares public; a secret is never one of them."""
    if not public:
        return {"$commit": commitment}
    return {"$commit": commitment, **{name: msgspec.Raw(canonicalize(value)) for name, value in public.items()}}


def shown(ex: Execution, step: PlannedStep, parameters: dict[str, object]) -> dict[str, object]:
    """The public parameters of a call, without what looks like a secret."""
    names = step.skill.metadata.public if step.skill is not None else ()
    if not names:
        return {}
    public = {name: parameters[name] for name in names if name in parameters and not is_secret(parameters[name])}
    rules = ex.book.redactor.rules(step.redact_hints)
    return {name: value for name, value in public.items() if not rules.find({name: value})}


def decision(
    ex: Execution, trace: TraceFold, step: PlannedStep, parameters: dict[str, object], verdict: Approval | Refusal
) -> Logged:
    request = trace.request
    assert request is not None
    decision_id, now_ms = ex.door.uuid7(), ex.door.now_ms()
    ts = format_ts(now_ms)
    approved = isinstance(verdict, Approval)
    meta = decision_meta(ex, verdict)
    capability: str | msgspec.UnsetType = msgspec.UNSET
    if approved:
        capability = ex.mint.mint(
            trace_id=trace.trace_id,
            plan_id=request.plan_id,
            server=step.server,
            tool=step.tool,
            commitment=cast("str", request.proposal.args["$commit"]),
            targets=[resource.id for resource in request.resources],
            read_only=step.tool_class(parameters) == "read",
            now_s=now_ms // 1000,
            nonce=ex.door.random_bytes(16).hex(),
        )
    artifact = SupervisorDecision(
        action_request_digest=cast("str", request.digest),
        action_request_id=request.action_request_id,
        decision="APPROVE" if approved else "DENY",
        meta=meta,
        minted_capability=capability,
        plan_id=request.plan_id,
        rationale=rationale(verdict),
        supervisor_decision_id=decision_id,
        trace_id=trace.trace_id,
        ts=ts,
    )
    return log(
        artifact,
        "supervisor_decision",
        decision_id,
        sequence=trace.sequence + 1,
        prev=trace.head,
        from_state="PENDING",
        to_state="AUTHORIZED" if approved else "DENIED",
    )


def decision_meta(ex: Execution, verdict: Approval | Refusal) -> Meta:
    if isinstance(verdict, Approval):
        meta: Meta = {"gate": "supervisor", "code": "OK", "vote": verdict.vote, "duplicate_of": None, "details": None}
    else:
        meta = {
            "gate": verdict.gate,
            "code": verdict.code,
            "vote": verdict.vote,
            "duplicate_of": verdict.duplicate_of,
            "details": refusal_details(ex, verdict),
        }
    meta.update(NO_AMOUNTS)
    meta.update(verdict.exact)
    return meta


def rationale(verdict: Approval | Refusal) -> str:
    if isinstance(verdict, Approval):
        return f"Approved by {verdict.by}"
    return f"Refused by gate {verdict.gate}: {verdict.code}"


def refusal_details(ex: Execution, refusal: Refusal) -> str:
    return ex.book.put({"message": refusal.message, **refusal.details})[0]


def idempotency_key(ex: Execution, trace: TraceFold, step: PlannedStep) -> str:
    """The trace id, or the caller's key behind the plan's salt."""
    if step.caller_key is None:
        return trace.trace_id
    return "k:" + hmac_hex(ex.plan.salt, step.caller_key.encode())


def tool_call(ex: Execution, trace: TraceFold, step: PlannedStep, parameters: dict[str, object], key: str) -> Logged:
    request, decided = trace.request, trace.decision
    assert request is not None
    assert decided is not None
    tool_call_id = ex.door.uuid7()
    artifact = ToolCall(
        call=request.proposal,
        capability_digest=sha256(cast("str", decided.minted_capability).encode()).hexdigest(),
        idempotency_key=key,
        plan_id=request.plan_id,
        supervisor_decision_digest=cast("str", decided.digest),
        supervisor_decision_id=decided.supervisor_decision_id,
        tool_call_id=tool_call_id,
        tool_class=step.tool_class(parameters),
        trace_id=trace.trace_id,
        ts=max(decided.ts, ex.door.timestamp()),  # whatever the clock does, a call follows its approval
    )
    return log(
        artifact,
        "tool_call",
        tool_call_id,
        sequence=trace.sequence + 1,
        prev=trace.head,
        from_state="AUTHORIZED",
        to_state="EXECUTING",
        tool_call_id=tool_call_id,
        idempotency_key=key,
    )


def tool_effect(
    ex: Execution,
    trace: TraceFold,
    outcome: StructuredOutcome,
    *,
    effect_status: EffectStatus,
    output: tuple[str, int],
    outcome_payload: tuple[str, int],
    served_from: str | None = None,
) -> Logged:
    call = trace.call
    assert call is not None
    effect_id = ex.door.uuid7()
    error: EffectError | msgspec.UnsetType = msgspec.UNSET
    if effect_status != "SUCCESS":
        message = f"Step {outcome.step_id} ended with {outcome.code}"[:200]
        error = EffectError(code=outcome.code, message=message, retryable=outcome.retryable)
    artifact = ToolEffect(
        content_hash_alg="sha256",
        document_hashes=[
            DocumentHash(hash=output[0], pointer="/output", size_bytes=output[1]),
            DocumentHash(hash=outcome_payload[0], pointer="/outcome", size_bytes=outcome_payload[1]),
        ],
        meta=effect_meta(trace, outcome, served_from),
        outcome=EffectOutcome(status=effect_status, error=error),
        plan_id=call.plan_id,
        tool_call_digest=cast("str", call.digest),
        tool_call_id=call.tool_call_id,
        tool_effect_id=effect_id,
        trace_id=trace.trace_id,
        ts=ex.door.timestamp(),
    )
    return log(
        artifact,
        "tool_effect",
        effect_id,
        sequence=trace.sequence + 1,
        prev=trace.head,
        from_state="EXECUTING",
        to_state="COMPLETED" if effect_status == "SUCCESS" else "FAILED",
        tool_call_id=call.tool_call_id,
        idempotency_key=call.idempotency_key,
    )


def effect_meta(trace: TraceFold, outcome: StructuredOutcome, served_from: str | None) -> Meta:
    exact = trace.cost_exact
    return {
        "code": outcome.code,
        "status": outcome.status,
        "retryable": outcome.retryable,
        "cost_cents": cents(exact),
        "cost_exact": str(exact),
        "retries": retries(trace),
        "attempts": len(trace.attempts),
        "attempts_head": trace.attempts_head,
        "served_from": served_from,
        "side_effects": side_effects_digest(trace),
    }


def retries(trace: TraceFold) -> int:
    return max(0, trace.made - 1)


EMPTY_SIDE_EFFECTS = sha256(b"[]").hexdigest()


def side_effects_digest(trace: TraceFold) -> str:
    """Over [[type, target], …] of all attempts, in order."""
    pairs = [[effect.type, effect.target] for attempt in trace.attempts for effect in attempt.side_effects]
    return sha256(canonicalize(pairs)).hexdigest() if pairs else EMPTY_SIDE_EFFECTS
