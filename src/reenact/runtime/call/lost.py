"""A lost answer: something may have been sent, and nobody can tell what came of it.

For a write that does not honour its key, and that its skill does not let be sent again. What can be found out is asked
at once; where that tells nothing the call stays open, its key in doubt and its money reserved, until a late result, a
read-back or a person tells. Its caller is given an outcome that says so.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from reenact.contracts.facts import ExceptionFact, Facts
from reenact.contracts.outcome import StructuredOutcome
from reenact.errors import ReenactError
from reenact.policy.classify import facts_of
from reenact.policy.repeat import PROCESS_DIED, answer_lost
from reenact.record.outcomes import build_outcome, lost_outcome
from reenact.runtime.call import artifacts, doubt
from reenact.runtime.call.call import Call
from reenact.runtime.effects import reports
from reenact.runtime.effects.source import AttemptResult
from reenact.runtime.parked import InDoubt, Lost
from reenact.store.base import KeyCompletion
from reenact.store.location import to_resolve

DIED: Final = "its process died before its answer was recorded"
GIVEN_UP: Final = "its caller gave up on it"
FOLLOWS: Final = "the call before it under the same key is in doubt"
LONGEST_CAUSE: Final = 500


def may_be_lost(call: Call) -> bool:
    """Whether an answer that does not come leaves a doubt: not of a read, nor of what may be sent again."""
    skill = call.step.skill
    if skill is None or not call.is_live or call.tool_class == "read":
        return False
    meta = skill.metadata
    repeatable = meta.honours_key or (meta.tool_class is None and meta.idempotent)
    return meta.in_doubt != "redispatch" and not repeatable


async def settled(call: Call, result: AttemptResult, code: str, number: int) -> AttemptResult:
    """What is known of an attempt that failed: itself, or where its answer is lost what can be found out at once.

    Raises Lost where that tells nothing.
    """
    if not (may_be_lost(call) and answer_lost(code, result.facts, unsure=result.unsure)):
        return result
    call.run.in_doubt.add(call.trace_id)
    try:
        known = await doubt.known_result(call, number, wait=False)
    except InDoubt as unknown:
        raise record(call, number, unknown, result.message or code, result) from None
    call.run.in_doubt.discard(call.trace_id)
    if isinstance(known, AttemptResult):
        return known
    return replace(result, details={**(result.details or {}), "read_back": "it did not happen"})


async def known_result(call: Call, number: int) -> AttemptResult | bool | None:
    """As `doubt.known_result`, of a call that was found open; Lost where nobody can tell."""
    try:
        return await doubt.known_result(call, number)
    except InDoubt as unknown:
        if not may_be_lost(call):
            raise
        raise record(call, number, unknown, *left_by(call)) from None


async def give_up(call: Call, number: int, cancelled: asyncio.CancelledError) -> None:
    """The caller is cancelled while its call is out: that is on record before it goes."""
    if may_be_lost(call):
        unknown = doubt.held(call, GIVEN_UP)
        record(call, number, unknown, GIVEN_UP, facts_of(cancelled))
        with suppress(ReenactError):  # it stays staged
            await call.park()


def left_by(call: Call) -> tuple[str, Facts]:
    """(why the answer to an open call is not known, as facts)."""
    if call.trace_id in call.run.found_open:
        return DIED, Facts(exceptions=(ExceptionFact(errno=None, type=PROCESS_DIED),))
    if call.step.caller_key is not None and not call.trace.attempts:
        return FOLLOWS, Facts()
    return GIVEN_UP, facts_of(asyncio.CancelledError())


def record(call: Call, number: int, unknown: InDoubt, cause: str, known: AttemptResult | Facts) -> Lost:
    """Stage that the answer to a dispatch is lost, once; in the same commit the caller's key is in doubt."""
    run, trace, step = call.run, call.trace, call.step
    if not is_told(call):
        mark, result = run.journal.book.redactor.redact_text, known if isinstance(known, AttemptResult) else None
        said = reports.fitting(mark(cause), LONGEST_CAUSE)
        outcome = build_outcome(
            trace, "failure", "ERR_IN_DOUBT", advice(call, said), run.clock.timestamp(), details={"cause": said},
            latency_ms=0 if result is None else result.latency_ms,
        )  # fmt: skip
        lost = artifacts.attempt(
            call,
            "lost",
            number,
            code=outcome.code,
            ended_at=outcome.timestamp,
            facts=reports.shown_facts(known.facts if isinstance(known, AttemptResult) else known, mark),
            response=run.journal.book.put(msgspec.to_builtins(outcome))[0],
            started_at=None if result is None else result.started_at,
        )
        run.journal.attempt(lost)
        run.journal.status("held")  # while it is, what the call may cost counts, whoever works on the run
        if step.caller_key is not None and trace.call is not None:
            key = trace.call.idempotency_key
            run.journal.complete(KeyCompletion(step.server, step.tool, key, trace.trace_id, "in_doubt"))
    run.in_doubt.add(trace.trace_id)
    told = told_outcome(call)
    if run.listeners.any:
        ended = {"attempt": number, "code": told.code, "status": told.status, "outcome": call.shown(told)}
        run.listeners.tell(call.notice("lost", **ended, message=cause, skill_id=step.skill_id))
    return Lost(str(unknown), told)


def advice(call: Call, cause: str) -> str:
    """What a model, and the person behind it, is told to do. It is recorded, so it does not name the store."""
    say = to_resolve(call.run.run_id, call.step.step_id, [])
    return (
        f"Do not call this again. It was sent and its answer is lost ({cause}): it may or may not have happened. A "
        f"person looks, and says so with `{say}`."
    )


def is_told(call: Call) -> bool:
    """That the answer to its last dispatch is lost is on record."""
    return bool(call.trace.attempts) and call.trace.attempts[-1].kind == "lost"


def told_outcome(call: Call) -> StructuredOutcome:
    """As it is recorded: whoever asks again gets the same."""
    return lost_outcome(call.run.journal.book, call.trace, call.trace.attempts[-1])
