"""EXECUTING: attempt, classify, record the attempt, retry or end. The one retry loop; `retry` decides."""

from __future__ import annotations

import asyncio
from typing import cast

from reenact.contracts.artifacts import EffectStatus
from reenact.contracts.outcome import StructuredOutcome
from reenact.errors import StoreError
from reenact.policy.classify import classify
from reenact.policy.settle import FREE, settle
from reenact.runtime import crash_points
from reenact.runtime.call import artifacts, begin, doubt, ending, lost, unrecorded
from reenact.runtime.call.call import Call
from reenact.runtime.call.ending import Kept
from reenact.runtime.call.retry import back_off, used_up
from reenact.runtime.effects import reports
from reenact.runtime.effects.source import NO_FACTS, SAME, AttemptCall, AttemptResult
from reenact.runtime.gates import budget
from reenact.runtime.gates.answer import Refusal
from reenact.runtime.money import reserved_by
from reenact.runtime.parked import Parked

NOT_KEPT: Kept = ("", 0)


async def dispatch(call: Call) -> StructuredOutcome:
    """Attempt until the call ends; the last attempt and the effect are staged, not yet durable."""
    run, trace = call.run, call.trace
    if not (call.plain and call.is_live):
        hold_without_secret(call)
    while True:
        number = trace.made  # what is recorded of a doubt is none
        result = await lost.known_result(call, number) if trace.trace_id in run.in_doubt else None
        if not isinstance(result, AttemptResult):
            may_be_sent_again = not call.is_live or trace.trace_id in run.in_doubt
            refusal = await doubt.record_doubt(call) if may_be_sent_again else None
            refusal = refusal or await out_of_money(call)
            if refusal is not None:
                return end_without_money(call, refusal)
            said = None if call.is_live else run.source.person_said(trace)
            if said is not None:
                if said.in_turn is not None:
                    await said.in_turn(trace.step_id)  # what it has reserved is reserved until then
                return ending.end_as_told(call, said)
            result = await attempt(call, number)
        code = code_of(call, result)
        wait = None
        if not code.startswith("OK"):
            result, wait = await after_failure(call, result, code, number)
            code = code_of(call, result)
        output = await call.run.searched(record, call, result, code, number, wait, ask=True)
        if wait is None:
            return end_with_attempt(call, result, code, output)
        if await wait_for_next(call, wait):
            return end_cancelled(call, "the run was cancelled before it was sent again")


async def after_failure(call: Call, result: AttemptResult, code: str, number: int) -> tuple[AttemptResult, int | None]:
    """(what is known of an attempt that failed, milliseconds until it is made once more); Lost where nobody knows."""
    wait = back_off(call, code, result, number)
    return (result, wait) if wait is not None else (await lost.settled(call, result, code, number), None)


def end_with_result(call: Call, result: AttemptResult) -> StructuredOutcome:
    """The call ends with what is known of its last dispatch; where that failed, nothing is sent again."""
    number, code = call.trace.made, code_of(call, result)
    wait = None if code.startswith("OK") else back_off(call, code, result, number)
    output = record(call, result, code, number, wait)
    if wait is None:
        return end_with_attempt(call, result, code, output)
    return end_cancelled(call, "interrupted before it was sent again")


async def wait_for_next(call: Call, wait_ms: int) -> bool:
    """The failed attempt is durable before anybody sleeps. True when the run was cancelled by the end of it."""
    crash_points.reach("before_attempt_record")
    await make_durable(call)
    crash_points.reach("after_attempt_record")
    if not call.is_live:
        return False
    crash_points.reach("in_backoff")
    return await call.run.sleep_until_cancelled(wait_ms / 1000)


async def make_durable(call: Call) -> None:
    """What is staged; a read may go on without that where its host said so."""
    try:
        await call.run.journal.flush()
    except StoreError as error:
        unrecorded.go_on(call, error)


# -- one attempt -------------------------------------------------------------------------------------------------------


def hold_without_secret(call: Call) -> None:
    """Nothing may be dispatched without its secret, and nothing be given up for it: a person puts it back."""
    begin.hold_encrypted(call, call.parameters)
    name = call.missing_secret()
    if name is not None:
        raise Parked("held", f"step {call.step.step_id} needs the secret {name}, which is not set")


async def attempt(call: Call, number: int) -> AttemptResult:
    try:
        call.run.keep_lease()
    except StoreError as error:
        unrecorded.go_on(call, error)
    if crash_points.armed is not None:
        crash_points.reach("before_dispatch")
    try:
        return await call.run.source.attempt(artifacts.attempt_call(call, number))
    except asyncio.CancelledError as cancelled:
        await lost.give_up(call, number, cancelled)
        raise
    finally:
        if crash_points.armed is not None:
            crash_points.reach("after_dispatch")


def code_of(call: Call | AttemptCall, result: AttemptResult) -> str:
    code = "OK" if result.facts is NO_FACTS else classify(result.facts)
    return call.step.success_code if code == "OK" else code


def record(call: Call, result: AttemptResult, code: str, number: int, wait: int | None, *, ask: bool = False) -> Kept:
    """Stage the attempt; (commitment, size) of the output. With `ask`, LargeValue before anything is staged."""
    run, hints = call.run, call.step.redact_hints
    book = run.journal.book
    run.unrecorded.results[call.trace.trace_id] = (number, result, hints, call.trace.step_id)
    # What a failed attempt returned is kept as its response. An output is what a step that succeeded gives: only
    # the attempt that ends a step has one.
    value = result.output if code.startswith("OK") else None
    output = book.put(value, hints=hints, ask=ask) if wait is None else NOT_KEPT
    response = output
    if result.response is not SAME or value is not result.output or wait is not None:
        response = book.put(result.output if result.response is SAME else result.response, hints=hints, ask=ask)
    mark, cost = book.redactor.redact_text, result.cost_exact
    if cost is None and result.facts is NO_FACTS and call.step.price == FREE:
        cost = 0
    elif cost is None:
        cost = settle(call.rate, run.plan.prices, reserved_by(call.trace), code, result.facts).exact
    if cost > 0 and call.is_live:
        run.money.spend(call.rate.model, cost)  # the agent's other runs count it too; a replay spends nothing
    run.journal.attempt(
        artifacts.attempt(
            call,
            "attempt",
            number,
            asked_after=call.asked_after,
            backoff_ms=wait,
            code=code,
            cost=cost,
            ended_at=result.ended_at,
            facts=result.facts if result.facts is NO_FACTS else reports.shown_facts(result.facts, mark),
            request_id=None if result.request_id is None else reports.shown_request_id(result.request_id, mark),
            response=response[0],
            retry_after_ms=result.retry_after_ms,
            side_effects=reports.shown_side_effects(result.side_effects, number, mark) if result.side_effects else [],
            started_at=result.started_at,
        )
    )
    run.journal.after_commit(lambda: run.unrecorded.results.pop(call.trace.trace_id, None) and None)
    if run.listeners.any:
        known = {"attempt": number, "code": code, "backoff_ms": wait, "skill_id": call.step.skill_id}
        run.listeners.tell(call.notice("attempt", **known))
    return output


# -- the end -----------------------------------------------------------------------------------------------------------


async def out_of_money(call: Call) -> Refusal | None:
    """Why nothing more may be dispatched; the first dispatch was the gate's business."""
    if not call.trace.attempts or call.trace.attempts[-1].kind == "redispatch":  # that is recorded where it is asked
        return None
    if not call.is_live:
        await call.run.source.in_turn_again(call.trace, in_doubt=False)
    call.asked_after = call.run.money.place()
    return None if doubt.ends_by_word(call) else budget.no_money_for_attempt(call)


def end_with_attempt(call: Call, result: AttemptResult, code: str, output: Kept) -> StructuredOutcome:
    """The last attempt ends the call: with what it returned, or how it failed."""
    good, redactor = code.startswith("OK"), call.run.journal.book.redactor
    message = f"Step {call.step.step_id} succeeded"
    if not good:
        message = reports.fitting(redactor.redact_text(result.message or code), reports.LONGEST_TEXT)
    details: dict[str, object] = {}
    if result.details:
        details = cast("dict[str, object]", redactor.mark(dict(result.details), call.step.redact_hints))
    if not good and result.facts.http_status is not None:
        details["upstream_status"] = result.facts.http_status
    if call.run.unrecorded.why:
        details |= unrecorded.remark(call)
    status: EffectStatus = "SUCCESS" if good else ("ERROR" if result.facts.exceptions else "FAILURE")
    outcome = ending.end(
        call,
        status,
        code,
        message,
        details=details or None,
        latency_ms=result.latency_ms,
        output=output,
        returned=result.output if good else ending.NOTHING,
        utility=result.utility,
        used_up=not good and used_up(call, code, result),
    )
    if crash_points.armed is not None:
        crash_points.reach("after_effect")
    return outcome


def end_without_money(call: Call, refusal: Refusal) -> StructuredOutcome:
    details: dict[str, object] = {"last_code": call.trace.attempts[-1].code, **refusal.details}
    outcome = ending.end(call, "FAILURE", refusal.code, refusal.message, details=details)
    if crash_points.armed is not None:
        crash_points.reach("after_effect")
    return outcome


def end_cancelled(call: Call, message: str) -> StructuredOutcome:
    """The call failed so far, and is not tried again."""
    details: dict[str, object] = {"last_code": call.trace.attempts[-1].code}
    outcome = ending.end(call, "FAILURE", "ERR_CANCELLED", message, details=details)
    if crash_points.armed is not None:
        crash_points.reach("after_effect")
    return outcome
