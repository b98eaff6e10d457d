"""AUTHORIZED: persist the call; with a caller's key, reserve it in the same transaction or serve what it did before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from msgspec.structs import replace

from reenact.contracts.outcome import Observability, OutcomeMetadata, StructuredOutcome
from reenact.contracts.records import Attempt
from reenact.journal.fold import TraceFold
from reenact.policy.taxonomy import is_retryable
from reenact.runtime import building
from reenact.runtime.capability import LIFETIME_S
from reenact.runtime.execution import Execution
from reenact.runtime.outcomes import outcome_of
from reenact.runtime.source import KeyVerdict
from reenact.runtime.steps import PlannedStep
from reenact.runtime.trace_history import load_trace
from reenact.store.base import KeyCompletion, KeyRecord, KeyReservation, Store
from reenact.values.canonical import canonicalize
from reenact.values.clock import parse_ts
from reenact.values.digest import hmac_hex
from reenact.values.envelope import open_envelope

IN_FLIGHT_WAIT_S = 20.0
POLL_S = 0.05


async def persist_call(
    ex: Execution, trace: TraceFold, step: PlannedStep, parameters: dict[str, object]
) -> StructuredOutcome | None:
    """Stage the tool_call; an outcome only where the key decides it without a dispatch."""
    key = building.idempotency_key(ex, trace, step)
    told = ex.source.key_verdict(step)
    if step.caller_key is None or (told is not None and not told.is_free):
        ex.writer.entry(building.tool_call(ex, trace, step, parameters, key))
        return None if told is None else follow(ex, trace, step, told)
    if approval_lapsed(ex, trace):
        ex.writer.entry(building.tool_call(ex, trace, step, parameters, key))
        return refuse(ex, trace, step, "ERR_POLICY_VIOLATION", "its approval had lapsed before the call was made")
    request_digest = digest_of(ex, step, parameters)
    reservation = KeyReservation(step.server, step.tool, key, request_digest, ex.plan.agent_id, trace.trace_id)
    if told is not None:
        await ex.writer.flush()
        if not await ex.writer.claim(building.tool_call(ex, trace, step, parameters, key), reservation):
            ex.writer.entry(building.tool_call(ex, trace, step, parameters, key))
        return None
    while (record := await settled_record(ex, step, key, trace.trace_id)) is None:
        if await ex.writer.claim(building.tool_call(ex, trace, step, parameters, key), reservation):
            return None
    ex.writer.entry(building.tool_call(ex, trace, step, parameters, key))
    if record.request_digest != request_digest or record.agent_id != ex.plan.agent_id:
        return refuse(ex, trace, step, "IDEMPOTENCY_CONFLICT", "the key was used for another request")
    if record.state != "completed":
        return refuse(ex, trace, step, "IDEMPOTENCY_IN_FLIGHT", "another run is executing a call with this key")
    return serve(ex, trace, step, record)


def approval_lapsed(ex: Execution, trace: TraceFold) -> bool:
    """A call found in AUTHORIZED long after it was approved: nothing was sent, and nothing may be any more."""
    assert trace.decision is not None
    return ex.door.now_ms() // 1000 >= parse_ts(trace.decision.ts) // 1000 + LIFETIME_S


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
        if record.state == "completed" or waited >= IN_FLIGHT_WAIT_S:
            return record
        await ex.door.sleep(POLL_S)
        waited += POLL_S


def finish(ex: Execution, trace: TraceFold, step: PlannedStep, outcome: StructuredOutcome) -> None:
    """With the effect: the key is completed, or free again when the call failed."""
    if step.caller_key is not None and trace.call is not None:
        key = trace.call.idempotency_key
        ex.writer.complete(KeyCompletion(step.server, step.tool, key, trace.trace_id, succeeded=outcome.ok))


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
    return serve_effect(ex, trace, step, outcome, ex.book.sealer.unseal(output), record.trace_id)


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


@dataclass(frozen=True, slots=True)
class StoredPayloads:
    """Values of another run."""

    store: Store
    run_id: str

    def get(self, commitment: str, *, near: int | None = None) -> object:
        envelope = self.store.payload(self.run_id, commitment, near=near)
        if envelope is None:
            raise LookupError(commitment)
        return open_envelope(envelope, commitment)
