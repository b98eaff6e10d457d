"""Whether a failed attempt is retried, and after how long."""

from __future__ import annotations

from reenact.contracts.facts import Facts
from reenact.contracts.records import Attempt
from reenact.policy.classify import classify
from reenact.policy.repeat import fate_unknown, may_repeat
from reenact.policy.retry import calculate_backoff_ms, should_retry
from reenact.runtime.call import doubt
from reenact.runtime.call.call import Call
from reenact.runtime.effects.source import AttemptResult

LONGEST_RETRY_AFTER_MS = 60_000
LONGEST_IN_FLIGHT = 5
"""How often a 409 after a re-dispatch is waited for before a person is asked."""


def back_off(call: Call, code: str, result: AttemptResult, number: int) -> int | None:
    """Milliseconds until a failed attempt is made once more; None when it was the last."""
    step, repeatable = call.step, is_repeatable(call, code, result)
    if in_flight_elsewhere(call, result):
        return wait_for_the_first(call, number)
    if not (repeatable and should_retry(code, number, step.retry)):
        return None
    wait = calculate_backoff_ms(number, step.retry, call.run.original_run_id, step_id=step.step_id)
    if result.retry_after_ms is None:
        return wait
    return max(wait, min(result.retry_after_ms, LONGEST_RETRY_AFTER_MS))


def is_repeatable(call: Call, code: str, result: AttemptResult) -> bool:
    """Whether it may be sent again, whatever its policy says."""
    made, skill = call.trace.call, call.step.skill
    assert made is not None
    meta = skill.metadata if skill is not None else None
    return may_repeat(
        tool_class=str(made.tool_class),
        honours_key=meta is None or meta.honours_key,
        repeatable=meta is not None and meta.tool_class is None and meta.idempotent,
        code=code,
        facts=result.facts,
    )


def used_up(call: Call, code: str, result: AttemptResult) -> bool:
    """Whether a call whose last attempt is on record ends because it was retried as often as its policy allows."""
    retries = call.trace.made - 1
    return (
        0 < retries == call.step.retry.max_retries
        and should_retry(code, 0, call.step.retry)
        and is_repeatable(call, code, result)
    )


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
