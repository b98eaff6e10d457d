"""EXECUTING: attempt, classify, record the attempt, retry or end. The one retry loop."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from reenact.contracts.artifacts import EffectStatus
from reenact.contracts.facts import Facts
from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Attempt, SideEffect
from reenact.errors import StoreError
from reenact.policy.classify import classify
from reenact.policy.repeat import fate_unknown, may_repeat
from reenact.policy.retry import calculate_backoff_ms, should_retry
from reenact.policy.settle import FREE, settle
from reenact.record.outcomes import with_output
from reenact.runtime.call import artifacts, doubt, ending, unrecorded
from reenact.runtime.call.call import Call
from reenact.runtime.call.ending import Kept
from reenact.runtime.crash_points import reach
from reenact.runtime.effects import reports
from reenact.runtime.effects.source import NO_FACTS, SAME, AttemptResult
from reenact.runtime.gates import budget
from reenact.runtime.gates.verdict import Refusal
from reenact.runtime.money import reserved_by
from reenact.runtime.parked import Parked

LONGEST_RETRY_AFTER_MS = 60_000
LONGEST_IN_FLIGHT = 5
"""How often a 409 after a re-dispatch is waited for before a person is asked."""
NOT_KEPT: Kept = ("", 0)


async def dispatch(call: Call) -> StructuredOutcome:
    """Attempt until the call ends; the last attempt and the effect are staged, not yet durable."""
    run, trace = call.run, call.trace
    if not (call.plain and call.is_live):
        hold_without_secret(call)
    while True:
        number = trace.made  # what is recorded of a doubt is none
        result = await doubt.known_result(call, number) if trace.trace_id in run.in_doubt else None
        if not isinstance(result, AttemptResult):
            may_be_sent_again = not call.is_live or trace.trace_id in run.in_doubt
            refusal = await doubt.record_doubt(call) if may_be_sent_again else None
            refusal = refusal or (out_of_money(call) if trace.attempts else None)
            if refusal is not None:
                return end_without_money(call, refusal)
            said = None if call.is_live else run.source.person_said(trace)
            if said is not None:
                if said.in_turn is not None:
                    await said.in_turn(trace.step_id)  # what it has reserved is reserved until then
                return ending.end_as_told(call, said)
            result = await attempt(call, number)
        code = code_of(call, result)
        wait = None if code.startswith("OK") else back_off(call, code, result, number)
        output = record(call, result, code, number, wait)
        if wait is None:
            return end_with_attempt(call, result, code, output)
        if await wait_for_next(call, wait):
            return end_cancelled(call, "the run was cancelled before it was sent again")


def end_with_result(call: Call, result: AttemptResult) -> StructuredOutcome:
    """The call ends with what is known of its last dispatch; where that failed, nothing is sent again."""
    number, code = call.trace.made, code_of(call, result)
    wait = None if code.startswith("OK") else back_off(call, code, result, number)
    output = record(call, result, code, number, wait)
    if wait is None:
        return end_with_attempt(call, result, code, output)
    return end_cancelled(call, "interrupted before it was sent again")


# -- one attempt -------------------------------------------------------------------------------------------------------


def hold_without_secret(call: Call) -> None:
    """Nothing may be dispatched without its secret, and nothing be given up for it: a person puts it back."""
    name = call.missing_secret()
    if name is not None:
        raise Parked("held", f"step {call.step.step_id} needs the secret {name}, which is not set")


async def attempt(call: Call, number: int) -> AttemptResult:
    try:
        call.run.keep_lease()
    except StoreError as error:
        unrecorded.go_on(call, error)
    reach("before_dispatch")
    try:
        return await call.run.source.attempt(artifacts.attempt_call(call, number))
    finally:
        reach("after_dispatch")


def code_of(call: Call, result: AttemptResult) -> str:
    code = "OK" if result.facts is NO_FACTS else classify(result.facts)
    return call.step.success_code if code == "OK" else code


def record(call: Call, result: AttemptResult, code: str, number: int, wait: int | None) -> Kept:
    """Stage the attempt; (commitment, size) of the output."""
    run, hints = call.run, call.step.redact_hints
    book = run.journal.book
    run.unrecorded.results[call.trace.trace_id] = (number, result, hints)
    # What a failed attempt returned is kept as its response. An output is what a step that succeeded gives: only
    # the attempt that ends a step has one.
    value = result.output if code.startswith("OK") else None
    output = book.put(value, hints=hints) if wait is None else NOT_KEPT
    response = output
    if result.response is not SAME or value is not result.output or wait is not None:
        response = book.put(result.output if result.response is SAME else result.response, hints=hints)
    cost = result.cost_exact
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
            backoff_ms=wait,
            code=code,
            cost=cost,
            ended_at=result.ended_at,
            facts=result.facts if result.facts is NO_FACTS else shown_facts(call, result.facts),
            request_id=None if result.request_id is None else shown_request_id(call, result.request_id),
            response=response[0],
            retry_after_ms=result.retry_after_ms,
            side_effects=shown_side_effects(call, number, result) if result.side_effects else [],
            started_at=result.started_at,
        )
    )
    run.journal.after_commit(lambda: run.unrecorded.results.pop(call.trace.trace_id, None) and None)
    if run.listeners.any:
        known = {"attempt": number, "code": code, "backoff_ms": wait, "skill_id": call.step.skill_id}
        run.listeners.tell(call.fact("attempt", **known))
    return output


# -- again, or not -----------------------------------------------------------------------------------------------------


def back_off(call: Call, code: str, result: AttemptResult, number: int) -> int | None:
    """Whether a failed attempt is retried: milliseconds until the next one; None when this one was the last."""
    made, step = call.trace.call, call.step
    assert made is not None
    meta = step.skill.metadata if step.skill is not None else None
    repeatable = may_repeat(
        tool_class=str(made.tool_class),
        honours_key=meta is None or meta.honours_key,
        repeatable=meta is not None and meta.tool_class is None and meta.idempotent,
        code=code,
        facts=result.facts,
    )
    if in_flight_elsewhere(call, result):
        return wait_for_the_first(call, number)
    if not (repeatable and should_retry(code, number, step.retry)):
        return None
    wait = calculate_backoff_ms(number, step.retry, call.run.original_run_id, step_id=step.step_id)
    if result.retry_after_ms is None:
        return wait
    return max(wait, min(result.retry_after_ms, LONGEST_RETRY_AFTER_MS))


def in_flight_elsewhere(call: Call, result: AttemptResult) -> bool:
    """409 to a write that may have been sent before is that dispatch, still at work: no failure of ours."""
    return says_conflict(result.facts) and any(may_be_at_work(call, past) for past in call.trace.attempts)


def may_be_at_work(call: Call, past: Attempt) -> bool:
    if past.kind == "redispatch":
        return True
    made = call.trace.call
    is_write = made is not None and made.tool_class != "read"
    return is_write and past.facts is not None and fate_unknown(str(past.code), past.facts)


def wait_for_the_first(call: Call, number: int) -> int:
    waited = sum(past.facts is not None and says_conflict(past.facts) for past in call.trace.attempts)
    if waited >= LONGEST_IN_FLIGHT:
        raise doubt.held(call, "the other side still answers 409: the first dispatch is in flight there")
    step = call.step
    return calculate_backoff_ms(
        min(number, LONGEST_IN_FLIGHT), step.retry, call.run.original_run_id, step_id=step.step_id
    )


def says_conflict(facts: Facts) -> bool:
    """409, as a status or in a skill's own words."""
    return facts.http_status == 409 or classify(facts) == "ERR_HTTP_409"


async def wait_for_next(call: Call, wait_ms: int) -> bool:
    """The failed attempt is durable before anybody sleeps. True when the run was cancelled by the end of it."""
    reach("before_attempt_record")
    try:
        await call.run.journal.flush()
    except StoreError as error:
        unrecorded.go_on(call, error)
    reach("after_attempt_record")
    if not call.is_live:
        return False
    reach("in_backoff")
    return await call.run.sleep_until_cancelled(wait_ms / 1000)


# -- what is shown of an attempt ---------------------------------------------------------------------------------------


def shown_facts(call: Call, facts: Facts) -> Facts:
    """Facts stand in the chain; the words in them are another's."""
    if not facts.exceptions and facts.finish_reason is None:
        return facts
    mark, fit = call.run.journal.book.redactor.redact_text, reports.fitting
    links = tuple(
        replace(link, type=fit(mark(link.type), reports.LONGEST_TYPE, empty="unknown")) for link in facts.exceptions
    )
    reason = facts.finish_reason
    reason = None if reason is None else fit(mark(reason), reports.LONGEST_FINISH_REASON)
    return replace(facts, exceptions=links, finish_reason=reason) if links or reason is not None else facts


def shown_request_id(call: Call, request_id: str) -> str:
    return reports.fitting(call.run.journal.book.redactor.redact_text(request_id), reports.LONGEST_REQUEST_ID)


def shown_side_effects(call: Call, number: int, result: AttemptResult) -> list[SideEffect]:
    mark, fit = call.run.journal.book.redactor.redact_text, reports.fitting
    return reports.bounded(
        [
            SideEffect(
                attempt=number,
                target=fit(mark(target), reports.LONGEST_TARGET),
                type=fit(mark(kind), reports.LONGEST_SIDE_EFFECT, empty="unknown"),
            )
            for kind, target in result.side_effects
        ]
    )


# -- the end -----------------------------------------------------------------------------------------------------------


def out_of_money(call: Call) -> Refusal | None:
    """Why nothing more may be dispatched; the first dispatch was the gate's business."""
    return None if doubt.ends_by_word(call) else budget.no_money_for_attempt(call)


def end_with_attempt(call: Call, result: AttemptResult, code: str, output: Kept) -> StructuredOutcome:
    """The last attempt ends the call: with what it returned, or how it failed."""
    good, redactor = code.startswith("OK"), call.run.journal.book.redactor
    message = f"Step {call.step.step_id} succeeded" if good else redactor.redact_text(result.message or code)
    details: dict[str, object] = {}
    if result.details:
        details = cast("dict[str, object]", redactor.mark(dict(result.details), call.step.redact_hints))
    if not good and result.facts.http_status is not None:
        details["upstream_status"] = result.facts.http_status
    if call.run.unrecorded.why:
        details |= unrecorded.remark(call)
    status: EffectStatus = "SUCCESS" if good else ("ERROR" if result.facts.exceptions else "FAILURE")
    outcome = ending.end(
        call, status, code, message, details=details or None, latency_ms=result.latency_ms, output=output
    )
    reach("after_effect")
    return with_output(outcome, result.output) if good else outcome


def end_without_money(call: Call, refusal: Refusal) -> StructuredOutcome:
    details: dict[str, object] = {"last_code": call.trace.attempts[-1].code, **refusal.details}
    outcome = ending.end(call, "FAILURE", refusal.code, refusal.message, details=details)
    reach("after_effect")
    return outcome


def end_cancelled(call: Call, message: str) -> StructuredOutcome:
    """The call failed so far, and is not tried again."""
    details: dict[str, object] = {"last_code": call.trace.attempts[-1].code}
    outcome = ending.end(call, "FAILURE", "ERR_CANCELLED", message, details=details)
    reach("after_effect")
    return outcome
