"""AUTHORIZED: persist the call; with a caller's key, reserve it in the same transaction or serve what it did before."""

from __future__ import annotations

import dataclasses
from typing import cast

from msgspec.structs import replace

from reenact.contracts.facts import Facts
from reenact.contracts.outcome import Observability, OutcomeMetadata, StructuredOutcome
from reenact.contracts.records import Attempt
from reenact.errors import FundsTaken
from reenact.journal.chain import Logged
from reenact.journal.fold import TraceFold
from reenact.policy.repeat import may_repeat
from reenact.policy.settle import tariff
from reenact.policy.taxonomy import is_retryable
from reenact.record.outcomes import outcome_of
from reenact.record.payloads import StoredPayloads
from reenact.record.trace import load_trace
from reenact.runtime.call import artifacts as building
from reenact.runtime.call.capability import LIFETIME_S
from reenact.runtime.effects.source import KeyVerdict
from reenact.runtime.money import reserved_by
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Execution
from reenact.store.base import Earmark, KeyCompletion, KeyRecord, KeyReservation, KeyState, Store
from reenact.values.canonical import canonicalize
from reenact.values.clock import parse_ts
from reenact.values.digest import hmac_hex

IN_FLIGHT_WAIT_S = 20.0
POLL_S = 0.05
NO_FACTS = Facts()
MINUTE = len("2026-01-01T00:00")


class Lapsed(Exception):
    """A call found in AUTHORIZED long after its approval, or by a clock that was set: it is not made any more."""

    def __init__(self, call: Logged) -> None:
        self.call = call


async def persist_call(
    ex: Execution, trace: TraceFold, step: PlannedStep, parameters: dict[str, object]
) -> StructuredOutcome | None:
    """Stage the tool_call; an outcome only where its key, the money that is left, or the time decides it."""
    try:
        return await reserved_call(ex, trace, step, parameters)
    except Lapsed as lapsed:
        ex.writer.entry(lapsed.call)
        return refuse(ex, trace, step, "ERR_POLICY_VIOLATION", "its approval had lapsed before the call was made")
    except FundsTaken as taken:
        key = building.idempotency_key(ex, trace, step)
        ex.writer.entry(building.tool_call(ex, trace, step, parameters, key))
        return refuse(ex, trace, step, taken.code, str(taken))


async def reserved_call(
    ex: Execution, trace: TraceFold, step: PlannedStep, parameters: dict[str, object]
) -> StructuredOutcome | None:
    key = building.idempotency_key(ex, trace, step)
    told = await ex.source.key_verdict(step)
    is_told = told is not None and not told.is_free
    money = None if is_told else earmark(ex, trace, step, parameters)
    if money is not None and step.caller_key is None:
        await ex.writer.claim(call_in_time(ex, trace, step, parameters, key), earmark=money)
        return None
    if told is not None and is_told:
        ex.writer.entry(building.tool_call(ex, trace, step, parameters, key))
        return follow(ex, trace, step, told)
    if step.caller_key is None:
        ex.writer.entry(call_in_time(ex, trace, step, parameters, key))
        return None
    request_digest = digest_of(ex, step, parameters)
    reservation = KeyReservation(step.server, step.tool, key, request_digest, ex.plan.agent_id, trace.trace_id)
    if told is not None:
        await ex.writer.flush()
        if not await ex.writer.claim(call_in_time(ex, trace, step, parameters, key), reservation, money):
            ex.writer.entry(call_in_time(ex, trace, step, parameters, key))
        return None
    record = await taken_by(ex, trace, step, parameters, reservation, money)
    if record is None:
        return None
    ex.writer.entry(call_in_time(ex, trace, step, parameters, key))
    if not is_of(record, reservation):
        return refuse(ex, trace, step, "IDEMPOTENCY_CONFLICT", "the key was used for another request")
    if record.state == "in_doubt":
        return refuse(ex, trace, step, "ERR_IN_DOUBT", doubtful(ex.store, record))
    if record.state != "completed":
        return refuse(ex, trace, step, "IDEMPOTENCY_IN_FLIGHT", "another run is executing a call with this key")
    return serve(ex, trace, step, record)


def earmark(ex: Execution, trace: TraceFold, step: PlannedStep, parameters: dict[str, object]) -> Earmark | None:
    """What the call may cost, where the agent has a limit that other runs count against; None where there is none."""
    exact = reserved_by(trace) if ex.writer.sets_apart and ex.source.is_live(step) else 0
    if exact == 0:
        return None
    model, policy = tariff(ex.plan.pins.prices, step.reference, parameters).model or "", ex.budget
    day_limit, model_limit = policy.exact_limits(model)
    whose = (ex.today(), ex.plan.plan.agent_id, model)
    return Earmark(trace.trace_id, *whose, exact, day_limit, model_limit, binding=policy.mode == "hard")


async def taken_by(
    ex: Execution,
    trace: TraceFold,
    step: PlannedStep,
    parameters: dict[str, object],
    wanted: KeyReservation,
    money: Earmark | None,
) -> KeyRecord | None:
    """Persist the call with its key; or, where that cannot be had, whose it is."""
    while True:
        record = await settled_record(ex, step, wanted.key, trace.trace_id)
        follows = record is not None and record.state == "in_doubt" and is_of(record, wanted)
        if record is not None and not (follows and may_follow(step, parameters)):
            return record
        reservation = wanted if record is None else dataclasses.replace(wanted, after=record.trace_id)
        if await ex.writer.claim(call_in_time(ex, trace, step, parameters, wanted.key), reservation, money):
            if record is not None:
                ex.recovered.add(trace.trace_id)  # what is in doubt of the first call is in doubt of this one
            return None


def is_of(record: KeyRecord, wanted: KeyReservation) -> bool:
    """The same request, by the same agent."""
    return (record.request_digest, record.agent_id) == (wanted.request_digest, wanted.agent_id)


def may_follow(step: PlannedStep, parameters: dict[str, object]) -> bool:
    """Whether a call may take over the key of an equal one that is in doubt.

    Where its skill reads back or is held, that decides. Else it is sent again, so only what may be repeated.
    """
    assert step.skill is not None
    meta = step.skill.metadata
    return meta.in_doubt != "redispatch" or may_repeat(
        tool_class=step.tool_class(parameters),
        honours_key=meta.honours_key,
        repeatable=meta.tool_class is None and meta.idempotent,
        code="ERR_IN_DOUBT",
        facts=NO_FACTS,
    )


def doubtful(store: Store, record: KeyRecord) -> str:
    row = store.trace(record.trace_id, run_id=record.run_id)
    where = record.trace_id if row is None else f"step {row.step_id}"
    return (
        f"a call under this key may or may not have happened ({where} of run {record.run_id}), and this skill does not "
        "honour the key; look, then call under another key if it did not"
    )


def call_in_time(ex: Execution, trace: TraceFold, step: PlannedStep, parameters: dict[str, object], key: str) -> Logged:
    """The tool_call, which says when it was made; Lapsed where that is too late for its approval."""
    call = building.tool_call(ex, trace, step, parameters, key)
    assert trace.decision is not None
    approved, made = trace.decision.ts, call.entry.ts
    if made[:MINUTE] != approved[:MINUTE] and parse_ts(made) // 1000 >= parse_ts(approved) // 1000 + LIFETIME_S:
        raise Lapsed(call)
    return call


def follow(ex: Execution, trace: TraceFold, step: PlannedStep, told: KeyVerdict) -> StructuredOutcome | None:
    """As the source says; the store is not asked."""
    if told.code is not None:
        return refuse(ex, trace, step, told.code, told.message)
    if told.outcome is not None:
        return serve_effect(ex, trace, step, told.outcome, told.output, str(told.served_from))
    return None


def digest_of(ex: Execution, step: PlannedStep, parameters: dict[str, object]) -> str:
    """Keyed, so that it tells nothing about the arguments to whoever sees it."""
    return hmac_hex(ex.plan.salt, canonicalize([step.skill_id, parameters]))


async def settled_record(ex: Execution, step: PlannedStep, key: str, trace_id: str) -> KeyRecord | None:
    """What the store knows of the key: None when it is free. One in flight is waited for, within bounds.

    The approval is not made durable for it: it commits with the call, and so never lapses between the two.
    """
    waited = 0.0
    while True:
        record = ex.store.key_record(step.server, step.tool, key)
        if record is None or record.state == "released" or record.trace_id == trace_id:
            return None
        if record.state in ("completed", "in_doubt") or waited >= IN_FLIGHT_WAIT_S:
            return record
        await ex.door.sleep(POLL_S)
        waited += POLL_S


def finish(ex: Execution, trace: TraceFold, step: PlannedStep, outcome: StructuredOutcome) -> None:
    """With the effect: the key is completed, free again when the call failed, or in doubt with it."""
    if step.caller_key is not None and trace.call is not None:
        key = trace.call.idempotency_key
        state: KeyState = "completed" if outcome.ok else "in_doubt" if nobody_knows(trace, outcome) else "released"
        ex.writer.complete(KeyCompletion(step.server, step.tool, key, trace.trace_id, state))


def leave_in_doubt(ex: Execution) -> None:
    """The run ends over calls that may or may not have happened: so it is with their keys."""
    for trace in ex.fold.open.values():
        if trace.state == "EXECUTING" and trace.meta("idempotency_source") == "caller":
            assert trace.request is not None
            assert trace.call is not None
            place = (trace.request.proposal.tool_server, trace.request.proposal.tool_name)
            ex.writer.complete(KeyCompletion(*place, trace.call.idempotency_key, trace.trace_id, "in_doubt"))


def nobody_knows(trace: TraceFold, outcome: StructuredOutcome) -> bool:
    """A person who says that it failed knows; that effect is a FAILURE."""
    assert trace.effect is not None
    return outcome.code == "ERR_IN_DOUBT" and trace.effect.outcome.status == "ERROR"


def refuse(ex: Execution, trace: TraceFold, step: PlannedStep, code: str, message: str) -> StructuredOutcome:
    """Refused after AUTHORIZED: FAILED with effect status DENIED, and nothing is dispatched."""
    outcome = StructuredOutcome(
        code=code,
        cost_cents=0,
        details=None,
        latency_ms=0,
        message=message,
        metadata=OutcomeMetadata(skill_id=step.skill_id, skill_version=str(step.skill_version)),
        observability=Observability(backend_retries=0, span_id=None, trace_id=trace.trace_id),
        retryable=is_retryable(code),
        run_id=ex.run_id,
        side_effects=[],
        status="failure",
        step_id=step.step_id,
        timestamp=ex.door.timestamp(),
    )
    logged = building.tool_effect(
        ex,
        trace,
        outcome,
        effect_status="DENIED",
        output=ex.book.put(None),
        outcome_payload=ex.book.put_outcome(outcome),
    )
    ex.writer.entry(logged)
    ex.remember_output(step.step_id, None)
    return outcome


def serve(ex: Execution, trace: TraceFold, step: PlannedStep, record: KeyRecord) -> StructuredOutcome:
    """The recorded effect of the key, marked as served from the record; nothing is dispatched."""
    first, commits = recorded_trace(ex.store, record)
    outcome, output = outcome_of(StoredPayloads(ex.store, record.run_id), first, near=commits.get("tool_effect"))
    return serve_effect(ex, trace, step, outcome, ex.book.redactor.decrypt(output), record.trace_id)


def serve_effect(
    ex: Execution, trace: TraceFold, step: PlannedStep, outcome: StructuredOutcome, output: object, served_from: str
) -> StructuredOutcome:
    now = ex.door.timestamp()
    ex.writer.attempt(
        Attempt(
            attempt=0, backoff_ms=None, code=outcome.code, cost_exact="0", ended_at=now, facts=None,
            fence=1 if ex.writer.lease is None else ex.writer.lease.token, kind="served",
            ordinal=len(trace.attempts), prev=trace.attempts_head, request_id=None,
            response=ex.book.put(output, hints=step.redact_hints)[0], retry_after_ms=None, side_effects=[],
            started_at=now, trace_id=trace.trace_id,
        )
    )  # fmt: skip
    served = replace(
        outcome,
        cost_cents=0,
        latency_ms=0,
        run_id=ex.run_id,
        step_id=step.step_id,
        side_effects=[],
        observability=Observability(backend_retries=0, span_id=None, trace_id=trace.trace_id),
        details={**(outcome.details or {}), "served_from": served_from},
        timestamp=now,
    )
    kept = ex.book.put(output, hints=step.redact_hints)
    ex.writer.entry(
        building.tool_effect(
            ex, trace, served, effect_status="SUCCESS", output=kept, outcome_payload=ex.book.put_outcome(served),
            served_from=served_from,
        )
    )  # fmt: skip
    ex.remember_output(step.step_id, kept[0])
    return replace(served, details={**cast("dict[str, object]", served.details), "output": output})


def recorded_trace(store: Store, record: KeyRecord) -> tuple[TraceFold, dict[str, int]]:
    row = store.trace(record.trace_id, run_id=record.run_id)
    assert row is not None, "a completed key names a recorded trace"
    trace, commits = load_trace(store, row)
    return trace, dict(commits)  # type: ignore[arg-type]  # narrower keys are fine here
