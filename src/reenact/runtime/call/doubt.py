"""Calls in doubt: their answer was lost, by a crash or otherwise, so that the effect may or may not have happened.

What is asked before anything is sent again, in this order: a result that an executor without the lease left in
`late_effects`; the result of a thread whose caller gave up on it; a person's word to send it again; then what the skill
declares: `redispatch` sends the same call with the same ids and key, `reconcile` asks the skill's read-back hook first,
`hold` leaves it to a person.
"""

from __future__ import annotations

from typing import cast

import msgspec

from reenact.contracts.facts import Facts
from reenact.contracts.records import Event
from reenact.errors import ReenactError, StoreError
from reenact.runtime.call import artifacts
from reenact.runtime.call.call import Call
from reenact.runtime.crash_points import reach
from reenact.runtime.effects.source import SAME, AttemptResult
from reenact.runtime.gates import budget
from reenact.runtime.gates.answer import Refusal
from reenact.runtime.money import reserved_by
from reenact.runtime.parked import InDoubt, Parked
from reenact.runtime.run import Run
from reenact.runtime.writing.redaction import Redactor
from reenact.store.base import LateEffect, Store
from reenact.store.location import store_option, to_resolve
from reenact.store.signing import is_late_mac, late_mac
from reenact.values.canonical import canonicalize, parse_canonical
from reenact.values.threads import build

UNDER_WAY = "it still runs in this process, and it is not sent twice at a time"
MOST_SAID = 20_000


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
    unsure: bool = False
    utility: str | None = None
    mac: str = ""
    """By which it is known to be of somebody who has the store's key: over all the rest."""


async def known_result(call: Call, number: int, *, wait: bool = True) -> AttemptResult | bool | None:
    """What can be known of a dispatch in doubt without sending it again: its result, or False: it did not happen.

    None where nobody can tell and the skill is sent again. Parked where that is for a person to say, or where what was
    sent is still under way here; `wait` for its end, for as long as the step may take.
    """
    run, trace_id = call.run, call.trace_id
    if trace_id not in run.in_doubt or not call.is_live:
        return None
    left = await run.source.left_behind(artifacts.attempt_call(call, number), wait)
    late: AttemptResult | bool | None = late_result(call, number) or left
    under_way = late is True
    if under_way and wait:
        raise held(call, UNDER_WAY)
    if isinstance(late, AttemptResult):
        run.in_doubt.discard(trace_id)
        return late
    if released_by_person(call):
        return None
    skill = call.step.skill
    mode = "redispatch" if skill is None else skill.metadata.in_doubt
    if mode == "hold" and not (call.tool_class == "read" and skill is not None and skill.metadata.read_when):
        raise held(call, "it may or may not have happened, and this skill is not sent twice")
    if mode == "reconcile":
        answer = await reconcile(call, number)
        if under_way and answer is False:
            raise held(call, UNDER_WAY)  # what is not done yet may be done in a moment
        return answer
    return None


def held(call: Call, why: str) -> InDoubt:
    run, step_id = call.run, call.step.step_id
    say = to_resolve(run.run_id, step_id, store_option(run.store.url))
    return InDoubt(f"step {step_id} is in doubt: {why}. Look, then say `{say}`")


def released_by_person(call: Call) -> bool:
    """A person said to send it again, and nothing was sent since: the word is about one dispatch."""
    since = call.run.journal.fold.freed.get(call.trace_id)
    return since is not None and all(record.kind != "redispatch" for record in call.trace.attempts[since:])


async def reconcile(call: Call, number: int) -> AttemptResult | bool:
    """The skill reads back: done (with its output), not done, or unknown. Unknown is for a person."""
    answer = await call.run.source.reconcile(artifacts.attempt_call(call, number))
    if isinstance(answer, AttemptResult):
        call.run.in_doubt.discard(call.trace_id)
        return answer
    if answer is False:
        return False
    said = call.run.journal.book.redactor.redact_text(answer) if isinstance(answer, str) else ""
    why = f" ({said if len(said) <= MOST_SAID else f'{said[:MOST_SAID]}…'})" if said else ""
    raise held(call, f"its read-back could not tell whether it happened{why}")


async def record_doubt(call: Call) -> Refusal | None:
    """A call that may have been sent already is recorded as such, and charged, before it is sent again.

    Why not, where the money does not reach for another: then the record is staged, to be written with the end.
    """
    run, trace = call.run, call.trace
    in_doubt = trace.trace_id in run.in_doubt
    if in_doubt and call.is_live:
        hold_crash_loop(call)
    for _ in range(run.source.redispatches(trace, in_doubt=in_doubt)):
        reach("before_redispatch_record")
        if not call.is_live:
            await run.source.in_turn_again(trace, in_doubt=True)
        reserved = reserved_by(trace)
        if reserved > 0 and call.is_live:
            run.money.spend(call.rate.model, reserved)
        run.journal.attempt(artifacts.attempt(call, "redispatch", trace.made, cost=reserved))
        refusal = None if ends_by_word(call) else budget.no_money_for_attempt(call)
        if refusal is not None:
            return refusal
        await run.journal.flush()
        reach("after_redispatch_record")
        if run.listeners.any and call.is_live:  # where it is served, nothing is sent
            run.listeners.tell_now(call.notice("redispatch", attempt=trace.made, skill_id=call.step.skill_id))
    run.in_doubt.discard(trace.trace_id)
    return None


def hold_crash_loop(call: Call) -> None:
    """A call in which process after process died is not sent once more: a person looks, and says what becomes of it."""
    run, skill = call.run, call.step.skill
    own = None if skill is None else skill.metadata.max_redispatches
    most, deaths = run.max_redispatches if own is None else own, deaths_in(call)
    if deaths >= most and not released_by_person(call):
        raise held(call, f"whoever sent it died in it, {deaths} times by now, and it is not sent again by itself")


def deaths_in(call: Call) -> int:
    """How often this call was sent by somebody who then ended without recording what came of it.

    Its first dispatch has the tool_call on record, each further one a `redispatch`; those of this hold of the run have
    its fence, and are no deaths.
    """
    run, trace = call.run, call.trace
    fence = None if run.journal.lease is None else run.journal.lease.token
    if trace.trace_id not in run.found_open:
        return 0
    return 1 + sum(record.kind == "redispatch" and record.fence != fence for record in trace.attempts)


def ends_by_word(call: Call) -> bool:
    """The record tells that somebody ended the call here, so nobody asked about money."""
    return not call.is_live and call.run.source.person_said(call.trace) is not None


def late_result(call: Call, number: int) -> AttemptResult | None:
    """What the executor before us got, if it came back in time to leave it; InDoubt for what nobody vouches for."""
    run, trace_id = call.run, call.trace_id
    for kept in run.store.late_effects(run.run_id, trace_id):
        if not is_left_by_us(run.store, run.run_id, kept):
            raise held(call, "what is there as its late result was not left by anybody who has the store's key")
        value = run.journal.book.redactor.decrypt(parse_canonical(kept.body), passed_on=True)
        shut = run.journal.book.redactor.why_shut(value)
        if shut is not None:
            raise Parked("held", f"what a call returned late is encrypted: {shut} to go on")
        late = msgspec.convert(value, Late)
        if late.attempt == number:
            data = run.journal.book.put_as_it_is(parse_canonical(kept.body))[0]
            ts = run.clock.timestamp()
            run.journal.event(Event(data=data, reason=None, trace_id=trace_id, ts=ts, type="late", who=None))
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
                unsure=late.unsure,
                utility=late.utility,
            )
    return None


def is_left_by_us(store: Store, run_id: str, kept: LateEffect) -> bool:
    """Whether what was left is of this call, and of somebody who has a key of the store."""
    try:
        value = parse_canonical(kept.body)
    except (ReenactError, UnicodeDecodeError, RecursionError):
        return False
    if not isinstance(value, dict) or value.get("trace_id") != kept.trace_id:
        return False
    mac = value.pop("mac", None)
    return isinstance(mac, str) and is_late_mac(store.key_of, store.store_id, run_id, canonicalize(value), mac)


def keep_late(run: Run) -> int:
    """Leave what this executor got but may no longer record, for whoever holds the lease now."""
    kept, redactor = 0, run.journal.book.redactor
    for trace_id, (number, result, hints, step_id) in list(run.unrecorded.results.items()):
        if step_id in run.unrecorded.why:
            continue  # its call is not on record either
        try:
            run.store.add_late_effect(
                run.run_id, late_effect(run.store, redactor, (run.run_id, trace_id), number, result, hints)
            )
        except StoreError:
            return kept
        kept += 1
    return kept


def late_effect(
    store: Store, redactor: Redactor, call: tuple[str, str], number: int, result: AttemptResult, hints: tuple[str, ...]
) -> LateEffect:
    """Of the call (run id, trace id)."""
    redact, (run_id, trace_id) = redactor.redact, call
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
        unsure=result.unsure,
        utility=result.utility,
    )
    return vouched(store, run_id, trace_id, cast("dict[str, object]", redact(msgspec.to_builtins(late), hints)))


def vouched(store: Store, run_id: str, trace_id: str, late: dict[str, object]) -> LateEffect:
    """With the MAC by which whoever goes on with the run knows that it was left by one of us."""
    value = {name: part for name, part in late.items() if name != "mac"}
    mac = late_mac(store.signing_key, store.store_id, run_id, canonicalize(value))
    return LateEffect(trace_id, canonicalize({**value, "mac": mac}))


build(Late)
