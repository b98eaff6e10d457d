"""The records of a call, filled in as the format says: never the goal, the arguments or a tool's words.

Four artifacts (request, decision, tool_call, tool_effect), each logged as the next entry of its trace, and the attempts
between the last two.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import digest as hmac
from typing import cast

import msgspec
from msgspec import UNSET, UnsetType

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
from reenact.contracts.facts import Facts
from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Attempt, AttemptKind, SideEffect
from reenact.contracts.references import is_secret
from reenact.journal.chain import encode
from reenact.journal.fold import TraceFold
from reenact.policy.budget import NO_AMOUNTS
from reenact.record.outcomes import build_outcome, denied_status
from reenact.runtime.call import capability as capabilities
from reenact.runtime.call.call import Call
from reenact.runtime.call.capability import NO_DISPATCH
from reenact.runtime.effects.source import AttemptCall
from reenact.runtime.gates.answer import Answered, Approval, Refusal
from reenact.runtime.run import Run
from reenact.values.canonical import canonicalize
from reenact.values.clock import elapsed_ms, format_ts
from reenact.values.digest import hmac_hex

NO_SIDE_EFFECTS: list[SideEffect] = []


def request(call: Call, commitment: str) -> ActionRequest:
    """The first entry of a trace."""
    run, step = call.run, call.step
    public = public_parameters(call) if step.skill is not None and step.skill.metadata.public else {}
    resources, risk_level = step.resources(public), step.risk_level(call.parameters)
    args: dict[str, object] = {"$commit": commitment}
    if public:
        args |= {name: msgspec.Raw(canonicalize(value)) for name, value in public.items()}
    meta: Meta = {
        "run_id": run.run_id,
        "step_id": step.step_id,
        "step_index": step.index,
        "turn": step.turn,
        "skill_id": step.skill_id,
        "skill_version": step.skill_version,
        "definition_digest": step.definition_digest,
        "idempotency_source": "caller" if step.caller_key is not None else "trace" if run.key_run is None else "step",
    }
    if step.lane is not None:
        meta["lane"] = step.lane
    if step.caller_key is not None:
        book, key = run.journal.book, step.caller_key
        meta["key"] = book.put_as_it_is(key if book.redactor.is_name(key) else book.redactor.redact_text(key))[0]
    trace_id, action_request_id, ts = run.clock.uuid7(), run.clock.uuid7(), run.clock.timestamp()
    return ActionRequest(
        action_request_id=action_request_id,
        agent_id=run.plan.agent_id,
        intent=f"Run {step.skill_id}@{step.skill_version or 'unknown'} for step {step.step_id}",
        meta=meta,
        plan_id=run.plan.plan_id,
        proposal=Proposal(args=args, tool_name=step.tool, tool_server=step.server),
        resources=resources,
        risk_level=risk_level,
        trace_id=trace_id,
        ts=ts,
    )


def public_parameters(call: Call) -> dict[str, object]:
    """The fields that the skill declares public, without what is or looks like a secret."""
    assert call.step.skill is not None
    parameters, names = call.parameters, call.step.skill.metadata.public
    public = {name: parameters[name] for name in names if name in parameters and not is_secret(parameters[name])}
    rules = call.run.journal.book.redactor.rules(call.step.redact_hints)
    return {name: value for name, value in public.items() if not rules.find({name: value})}


def decision(call: Call, answer: Approval | Answered | Refusal, utility: str | None = None) -> SupervisorDecision:
    run, trace, step = call.run, call.trace, call.step
    request = trace.request
    assert request is not None
    approved = not isinstance(answer, Refusal)
    decision_id, now_ms = run.clock.uuid7(), run.clock.now_ms()
    nonce, ts = run.clock.random_bytes(16) if approved else b"", format_ts(now_ms)
    capability: str | msgspec.UnsetType = msgspec.UNSET
    if approved:
        by, vote = (answer.by, answer.vote) if isinstance(answer, Approval) else ("key", None)
        call.approved = binds = capabilities.bindings(call, by, vote)
        capability = run.mint.mint(
            trace_id=trace.trace_id,
            plan_id=request.plan_id,
            server=step.server,
            tool=step.tool,
            commitment=cast("str", request.proposal.args["$commit"]),
            binds=capabilities.bound(binds),
            targets=NO_DISPATCH if by == "key" else [resource.id for resource in request.resources],
            read_only=call.tool_class == "read",
            now_s=now_ms // 1000,
            nonce=nonce.hex(),
        )
    return SupervisorDecision(
        action_request_digest=cast("str", request.digest),
        action_request_id=request.action_request_id,
        decision="APPROVE" if approved else "DENY",
        meta=decision_meta(run, answer) if utility is None else decision_meta(run, answer) | {"step_utility": utility},
        minted_capability=capability,
        plan_id=request.plan_id,
        rationale=rationale(answer),
        supervisor_decision_id=decision_id,
        trace_id=trace.trace_id,
        ts=ts,
    )


def refused_outcome(call: Call, answer: Refusal) -> StructuredOutcome:
    """What a refused call comes to, before that is recorded."""
    details = {**answer.details, "gate": answer.gate, "reason": answer.message}
    asked = call.trace.request
    assert asked is not None
    return build_outcome(
        call.trace, denied_status(answer.code), answer.code, rationale(answer), asked.ts, details=details
    )


def rationale(answer: Approval | Answered | Refusal) -> str:
    if isinstance(answer, Approval):
        return f"Approved by {answer.by}"
    if isinstance(answer, Answered):
        return "Answered by its idempotency key"
    return f"Refused by gate {answer.gate}: {answer.code}"


def decision_meta(run: Run, answer: Approval | Answered | Refusal) -> Meta:
    if isinstance(answer, Approval):
        meta: Meta = {"gate": "supervisor", "code": "OK", "vote": answer.vote, "duplicate_of": None, "details": None}
    elif isinstance(answer, Answered):
        return {"gate": "key", "code": "OK", "vote": None, "duplicate_of": None, "details": None, **NO_AMOUNTS}
    else:
        meta = {
            "gate": answer.gate,
            "code": answer.code,
            "vote": answer.vote,
            "duplicate_of": answer.duplicate_of,
            "details": run.journal.book.put({"message": answer.message, **answer.details})[0],
        }
    meta.update(NO_AMOUNTS)
    meta.update(answer.exact)
    return meta


def idempotency_key(call: Call) -> str:
    """What the tool is given to know the call by: made of the caller's key, else of the step and its arguments.

    A caller's key is the same in every run of the store, a step's own in every continuation of its run; but for replays
    and forks, which send under keys of their own. Runs without a key run know a call by its trace.
    """
    run, step, secret = call.run, call.step, call.run.store.key_secret
    key, more = step.caller_key, [run.run_id] if run.sends_anew else []
    if run.key_run is None:
        return call.trace.trace_id if key is None else "k:" + hmac_hex(run.plan.salt, key.encode())
    if key is not None:
        return "k:" + hmac_hex(secret, canonicalize(["caller", step.server, step.tool, key, *more]))
    arguments = hmac(run.plan.salt, call.content or canonicalize(call.parameters), "sha256").hex()
    made_of = ["step", run.key_run, step.step_id, step.server, step.tool, arguments, *more]
    return "s:" + hmac(secret, encode(made_of), "sha256").hex()  # nothing in it that the encoder would write otherwise


def tool_call(call: Call, key: str) -> ToolCall:
    trace, clock = call.trace, call.run.clock
    request, decided = trace.request, trace.decision
    assert request is not None
    assert decided is not None
    tool_call_id, now = clock.uuid7(), clock.timestamp()
    return ToolCall(
        call=request.proposal,
        capability_digest=sha256(cast("str", decided.minted_capability).encode()).hexdigest(),
        idempotency_key=key,
        plan_id=request.plan_id,
        supervisor_decision_digest=cast("str", decided.digest),
        supervisor_decision_id=decided.supervisor_decision_id,
        tool_call_id=tool_call_id,
        tool_class=call.tool_class,
        trace_id=trace.trace_id,
        ts=max(decided.ts, now),  # whatever the clock does, a call follows its approval
    )


def attempt_call(call: Call, number: int) -> AttemptCall:
    """What a source is handed, where it is still what was approved."""
    run, made = call.run, call.trace.call
    assert made is not None
    capabilities.check(call)  # whatever the source: a replay's may ask the world too
    return AttemptCall(
        run_id=run.run_id,
        original_run_id=run.original_run_id,
        trace_id=call.trace.trace_id,
        step=call.step,
        parameters=call.parameters,
        attempt=number,
        idempotency_key=made.idempotency_key,
        context=run.plan.context,
        plain=call.plain,
    )


def attempt(
    call: Call,
    kind: AttemptKind,
    number: int,
    *,
    asked_after: int | UnsetType = UNSET,
    cost: int = 0,
    code: str | None = None,
    facts: Facts | None = None,
    backoff_ms: int | None = None,
    request_id: str | None = None,
    response: str | None = None,
    retry_after_ms: int | None = None,
    side_effects: list[SideEffect] = NO_SIDE_EFFECTS,
    started_at: str | None = None,
    ended_at: str | None = None,
) -> Attempt:
    """The next record of a trace between its tool_call and its effect."""
    trace, lease = call.trace, call.run.journal.lease
    ends = kind == "served" or (kind == "attempt" and backoff_ms is None)  # its effect is made with it
    return Attempt(
        asked_after=asked_after,
        attempt=number,
        backoff_ms=backoff_ms,
        code=code,
        cost_exact=str(cost),
        ended_at=ended_at,
        facts=facts,
        fence=1 if lease is None else lease.token,
        kind=kind,
        made_after=UNSET if ends else call.run.money.place(),
        ordinal=len(trace.attempts),
        prev=trace.attempts_head,
        request_id=request_id,
        response=response,
        retry_after_ms=retry_after_ms,
        side_effects=side_effects,
        started_at=started_at,
        trace_id=trace.trace_id,
    )


def tool_effect(
    call: Call,
    outcome: StructuredOutcome,
    status: EffectStatus,
    output: tuple[str, int],
    served_from: str | None,
    more: Meta,
) -> ToolEffect:
    """The last entry of a trace that was authorized; `output` is the commitment and size of what it returned."""
    trace, made = call.trace, call.trace.call
    assert made is not None
    said, effect_id = call.run.journal.book.put_outcome(outcome), call.run.clock.uuid7()
    error: EffectError | msgspec.UnsetType = msgspec.UNSET
    if status != "SUCCESS":
        message = f"Step {outcome.step_id} ended with {outcome.code}"[:200]
        error = EffectError(code=outcome.code, message=message, retryable=outcome.retryable)
    return ToolEffect(
        content_hash_alg="sha256",
        document_hashes=[
            DocumentHash(hash=output[0], pointer="/output", size_bytes=output[1]),
            DocumentHash(hash=said[0], pointer="/outcome", size_bytes=said[1]),
        ],
        meta=effect_meta(trace, outcome, served_from) if not more else effect_meta(trace, outcome, served_from) | more,
        outcome=EffectOutcome(status=status, error=error),
        plan_id=made.plan_id,
        tool_call_digest=cast("str", made.digest),
        tool_call_id=made.tool_call_id,
        tool_effect_id=effect_id,
        trace_id=trace.trace_id,
        ts=outcome.timestamp,
    )


def effect_meta(trace: TraceFold, outcome: StructuredOutcome, served_from: str | None) -> Meta:
    """What behaviour is compared by, so that it can be once the payloads are gone."""
    exact = trace.cost_exact
    meta: Meta = {
        "code": outcome.code,
        "status": outcome.status,
        "retryable": outcome.retryable,
        "cost_cents": outcome.cost_cents,
        "cost_exact": str(exact),
        "retries": max(0, trace.made - 1),
        "attempts": len(trace.attempts),
        "attempts_head": trace.attempts_head,
        "served_from": served_from,
        "side_effects": side_effects_digest(trace),
    }
    last = trace.attempts[-1] if trace.attempts else None
    if last is not None and last.kind != "attempt":
        last = next((attempt for attempt in reversed(trace.attempts) if attempt.kind == "attempt"), None)
    took = 0 if last is None else elapsed_ms(str(last.started_at), str(last.ended_at))
    if outcome.latency_ms != took:  # reenact: ignore[RN101] kept where the attempts do not say it; decides nothing
        meta["latency_ms"] = outcome.latency_ms
    return meta


EMPTY_SIDE_EFFECTS = sha256(b"[]").hexdigest()


def side_effects_digest(trace: TraceFold) -> str:
    """Over [[type, target], …] of all attempts, in order."""
    pairs = [[effect.type, effect.target] for attempt in trace.attempts for effect in attempt.side_effects]
    return sha256(canonicalize(pairs)).hexdigest() if pairs else EMPTY_SIDE_EFFECTS
