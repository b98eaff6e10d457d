"""After a crash in EXECUTING the effect may or may not have happened. What is asked before anything is sent again.

In this order: a person's word, what a fenced-off executor left in `late_effects`, what a thread gives that its caller
gave up on, then what the skill declares:
`redispatch` sends the same call with the same ids and key, `reconcile` asks the skill's read-back hook first, `hold`
leaves it to a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from reenact.contracts.artifacts import EffectStatus
from reenact.contracts.facts import Facts
from reenact.contracts.outcome import Observability, OutcomeMetadata, StructuredOutcome
from reenact.contracts.records import Event
from reenact.contracts.references import escape_encrypted_marks, has_encrypted
from reenact.errors import StoreError
from reenact.journal.fold import TraceFold
from reenact.policy.cost import cents
from reenact.policy.taxonomy import is_retryable
from reenact.record.outcomes import outcome_side_effects
from reenact.runtime.call import artifacts as building
from reenact.runtime.effects.source import SAME, AttemptResult
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Execution, Parked
from reenact.runtime.writing.redaction import KEY_VARIABLE
from reenact.store.base import LateEffect
from reenact.values.canonical import canonicalize, parse_canonical

if TYPE_CHECKING:
    from reenact.runtime.call.dispatch import Dispatch


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that ended after its executor had lost the lease, with its values."""

    trace_id: str
    attempt: int
    facts: Facts
    started_at: str
    ended_at: str
    latency_ms: int
    output: object = None
    response: object = None
    same: bool = True
    side_effects: list[tuple[str, str]] = []
    request_id: str | None = None
    retry_after_ms: int | None = None
    message: str | None = None
    details: dict[str, object] | None = None


async def known_result(dispatch: Dispatch, number: int, *, wait: bool = True) -> AttemptResult | bool | None:
    """What can be known of a dispatch in doubt without sending it again: its result, or False: it did not happen.

    None where nobody can tell and the skill is sent again. Parked where that is for a person to say, or where what was
    sent is still under way here; `wait` for its end, for as long as the step may take.
    """
    ex, trace = dispatch.ex, dispatch.trace
    if trace.trace_id not in ex.recovered or not ex.source.is_live(dispatch.step):
        return None
    late: AttemptResult | bool | None = late_result(ex, trace.trace_id, number)
    late = late or await ex.source.left_behind(dispatch.attempt_call(number), wait=wait)
    if late is True and wait:
        raise held(dispatch, "its thread still runs in this process, and it is not sent twice at a time")
    if isinstance(late, AttemptResult):
        ex.recovered.discard(trace.trace_id)
        return late
    if released_by_person(ex, trace):
        return None
    skill = dispatch.step.skill
    mode = "redispatch" if skill is None else skill.metadata.in_doubt
    if mode == "hold":
        raise held(dispatch, "it may or may not have happened, and this skill is not sent twice")
    if mode == "reconcile":
        return await reconcile(dispatch, number)
    return None


def held(dispatch: Dispatch, why: str) -> Parked:
    ex, step = dispatch.ex, dispatch.step
    return Parked(
        "held",
        f"step {step.step_id} is in doubt: {why}. Look, then say `reenact resolve {ex.run_id} {step.step_id} "
        "--succeeded|--failed|--redispatch --reason …`",
    )


def released_by_person(ex: Execution, trace: TraceFold) -> bool:
    """A person said to send it again, and nothing was sent since: the word is about one dispatch."""
    since = ex.fold.freed.get(trace.trace_id)
    return since is not None and all(record.kind != "redispatch" for record in trace.attempts[since:])


async def reconcile(dispatch: Dispatch, number: int) -> AttemptResult | bool:
    """The skill reads back: done (with its output), not done, or unknown. Unknown is for a person."""
    answer = await dispatch.ex.source.reconcile(dispatch.attempt_call(number))
    if isinstance(answer, AttemptResult):
        dispatch.ex.recovered.discard(dispatch.trace.trace_id)
        return answer
    if answer is False:
        return False
    why = f" ({dispatch.ex.book.redactor.redact_text(answer)})" if isinstance(answer, str) and answer else ""
    raise held(dispatch, f"its read-back could not tell whether it happened{why}")


def end_undispatched(
    ex: Execution,
    trace: TraceFold,
    step: PlannedStep,
    *,
    code: str,
    message: str,
    details: dict[str, object],
    status: EffectStatus,
    output: object = None,
) -> StructuredOutcome:
    """The effect of a call that no attempt of ours ends: somebody tells how it ended, or that nobody knows."""
    good = status == "SUCCESS"
    outcome = StructuredOutcome(
        code=code,
        cost_cents=cents(trace.cost_exact),
        details=details,
        latency_ms=0,
        message=message,
        metadata=OutcomeMetadata(skill_id=step.skill_id, skill_version=str(step.skill_version)),
        observability=Observability(backend_retries=building.retries(trace), span_id=None, trace_id=trace.trace_id),
        retryable=is_retryable(code),
        run_id=ex.run_id,
        side_effects=outcome_side_effects(trace),
        status="success" if good else "failure",
        step_id=step.step_id,
        timestamp=ex.door.timestamp(),
    )
    kept = ex.book.put(escape_encrypted_marks(output) if good else None, hints=step.redact_hints)
    logged = building.tool_effect(
        ex, trace, outcome, effect_status=status, output=kept, outcome_payload=ex.book.put_outcome(outcome)
    )
    ex.writer.entry(logged)
    ex.remember_output(step.step_id, kept[0] if good else None)
    ex.recovered.discard(trace.trace_id)
    return outcome


def late_result(ex: Execution, trace_id: str, number: int) -> AttemptResult | None:
    """What the executor before us got, if it came back in time to leave it."""
    for kept in ex.store.late_effects(ex.run_id, trace_id):
        value = ex.book.redactor.decrypt(parse_canonical(kept.body))
        if has_encrypted(value):
            raise Parked("held", f"what a call returned late is sealed; set {KEY_VARIABLE} to go on")
        late = msgspec.convert(value, Late)
        if late.attempt == number:
            data = ex.book.put_as_it_is(parse_canonical(kept.body))[0]
            ts = ex.door.timestamp()
            ex.writer.event(Event(data=data, reason=None, trace_id=trace_id, ts=ts, type="late", who=None))
            return AttemptResult(
                facts=late.facts,
                started_at=late.started_at,
                ended_at=late.ended_at,
                latency_ms=late.latency_ms,
                output=late.output,
                response=SAME if late.same else late.response,
                side_effects=late.side_effects,
                request_id=late.request_id,
                retry_after_ms=late.retry_after_ms,
                message=late.message,
                details=late.details,
            )
    return None


def keep_late(ex: Execution) -> int:
    """Leave what this executor got but may no longer record, for whoever holds the lease now."""
    kept, redact = 0, ex.book.redactor.redact
    for trace_id, (number, result, hints) in list(ex.unrecorded.items()):
        late = Late(
            trace_id=trace_id,
            attempt=number,
            facts=result.facts,
            started_at=result.started_at,
            ended_at=result.ended_at,
            latency_ms=result.latency_ms,
            output=redact(result.output, hints),
            response=None if result.response is SAME else redact(result.response, hints),
            same=result.response is SAME,
            side_effects=result.side_effects,
            request_id=result.request_id,
            retry_after_ms=result.retry_after_ms,
            message=result.message,
            details=result.details,
        )
        value = redact(msgspec.to_builtins(late), hints)
        try:
            ex.store.add_late_effect(ex.run_id, LateEffect(trace_id, canonicalize(value)))
        except StoreError:
            return kept
        kept += 1
    return kept
