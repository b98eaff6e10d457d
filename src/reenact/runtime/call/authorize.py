"""AUTHORIZED: stage the tool_call; with a caller's key, reserve it in the same transaction or serve what it did before.

Money that the agent's other runs count against is set apart in that transaction too.
"""

from __future__ import annotations

import dataclasses

from reenact.contracts.artifacts import ToolCall
from reenact.contracts.facts import Facts
from reenact.contracts.outcome import StructuredOutcome
from reenact.errors import FundsTaken, StoreError
from reenact.policy.repeat import may_repeat
from reenact.record.trace import is_open, recorded_outcome
from reenact.runtime.call import artifacts, ending, unrecorded
from reenact.runtime.call.call import Call
from reenact.runtime.call.capability import LIFETIME_S
from reenact.runtime.effects.source import KeyAnswer
from reenact.runtime.gates import budget
from reenact.runtime.money import reserved_by
from reenact.store.base import Earmark, KeyRecord, KeyReservation, Store
from reenact.values.canonical import canonicalize
from reenact.values.clock import parse_ts
from reenact.values.digest import hmac_hex

IN_FLIGHT_WAIT_S = 20.0
POLL_S = 0.05
NO_FACTS = Facts()
MINUTE = len("2026-01-01T00:00")


class Lapsed(Exception):
    """A call found in AUTHORIZED long after its approval, or by a clock that was set: it is not made any more."""

    def __init__(self, tool_call: ToolCall) -> None:
        self.tool_call = tool_call


async def authorize(call: Call) -> StructuredOutcome | None:
    """Stage the tool_call; an outcome only where its key, the money that is left, or the time decides it."""
    journal = call.run.journal
    try:
        return await reserve(call)
    except Lapsed as lapsed:
        journal.entry(lapsed.tool_call)
        return ending.refuse(call, "ERR_POLICY_VIOLATION", "its approval had lapsed before the call was made")
    except FundsTaken as taken:
        journal.entry(artifacts.tool_call(call, artifacts.idempotency_key(call)))
        return ending.refuse(call, taken.code, str(taken))
    except StoreError as error:
        # No transaction has set its money apart: calls that were approved side by side count each other here.
        if call.trace.state != "EXECUTING" or budget.no_money_for_attempt(call) is not None:
            raise
        unrecorded.go_on(call, error)  # the call is staged all the same
        return None


async def reserve(call: Call) -> StructuredOutcome | None:
    """By what there is to reserve: nothing, money, a caller's key; or nothing any more, where the source told."""
    journal, key = call.run.journal, artifacts.idempotency_key(call)
    told = None if call.is_live else await call.run.source.key_answer(call.step)
    if told is not None and not told.is_free:
        journal.entry(artifacts.tool_call(call, key))
        return follow(call, told)
    money = earmark(call) if journal.sets_apart and call.is_live else None
    if call.step.caller_key is not None:
        return await reserve_key(call, key, money, told)
    if money is not None:
        await journal.claim(call_in_time(call, key), earmark=money)
    else:
        journal.entry(call_in_time(call, key))
    return None


async def reserve_key(call: Call, key: str, money: Earmark | None, told: KeyAnswer | None) -> StructuredOutcome | None:
    """Take the caller's key for this call; where another has it, what that one came to decides."""
    run, step = call.run, call.step
    request_digest = hmac_hex(run.plan.salt, canonicalize([step.skill_id, call.parameters]))
    wanted = KeyReservation(step.server, step.tool, key, request_digest, run.plan.agent_id, call.trace_id)
    if told is not None:
        await run.journal.flush()
        if not await run.journal.claim(call_in_time(call, key), wanted, money):
            run.journal.entry(call_in_time(call, key))
        return None
    record = await taken_by(call, wanted, money)
    if record is None:
        return None
    run.journal.entry(call_in_time(call, key))
    if not is_of(record, wanted):
        return ending.refuse(call, "IDEMPOTENCY_CONFLICT", "the key was used for another request")
    if record.state == "in_doubt":
        return ending.refuse(call, "ERR_IN_DOUBT", doubtful(run.store, record))
    if record.state != "completed":
        return ending.refuse(call, "IDEMPOTENCY_IN_FLIGHT", "another run is executing a call with this key")
    outcome, output = recorded_outcome(run.store, record.run_id, record.trace_id)
    return ending.serve(call, outcome, run.journal.book.redactor.decrypt(output), record.trace_id)


def follow(call: Call, told: KeyAnswer) -> StructuredOutcome | None:
    """As the source says; the store is not asked."""
    if told.code is not None:
        return ending.refuse(call, told.code, told.message)
    assert told.outcome is not None
    return ending.serve(call, told.outcome, told.output, str(told.served_from))


def earmark(call: Call) -> Earmark | None:
    """What the call may cost, where the agent has a limit that other runs count against; None where it is free."""
    exact = reserved_by(call.trace)
    if exact == 0:
        return None
    run, model, policy = call.run, call.rate.model or "", call.run.money.policy
    day_limit, model_limit = policy.exact_limits(model)
    whose = (run.money.today(), run.plan.plan.agent_id, model)
    return Earmark(call.trace_id, *whose, exact, day_limit, model_limit, binding=policy.mode == "hard")


async def taken_by(call: Call, wanted: KeyReservation, money: Earmark | None) -> KeyRecord | None:
    """Persist the call with its key; or, where that cannot be had, whose it is."""
    while True:
        record = await settled_record(call, wanted.key)
        follows = record is not None and record.state == "in_doubt" and is_of(record, wanted)
        if record is not None and not (follows and may_follow(call, record)):
            return record
        reservation = wanted if record is None else dataclasses.replace(wanted, after=record.trace_id)
        if await call.run.journal.claim(call_in_time(call, wanted.key), reservation, money):
            if record is not None:
                call.run.in_doubt.add(call.trace_id)  # what is in doubt of the first call is in doubt of this one
            return None


async def settled_record(call: Call, key: str) -> KeyRecord | None:
    """What the store knows of the key: None when it is free. One in flight is waited for, within bounds.

    The approval is not made durable for it: it commits with the call, and so never lapses between the two.
    """
    waited, run, step = 0.0, call.run, call.step
    while True:
        record = run.store.key_record(step.server, step.tool, key)
        if record is None or record.state == "released" or record.trace_id == call.trace_id:
            return None
        if record.state in ("completed", "in_doubt") or waited >= IN_FLIGHT_WAIT_S:
            return record
        await run.clock.sleep(POLL_S)
        waited += POLL_S


def is_of(record: KeyRecord, wanted: KeyReservation) -> bool:
    """The same request, by the same agent."""
    return (record.request_digest, record.agent_id) == (wanted.request_digest, wanted.agent_id)


def may_follow(call: Call, first: KeyRecord) -> bool:
    """Whether a call may take over the key of an equal one that is in doubt; not while that is open, and may yet end.

    Where its skill reads back or is held, that decides. Else it is sent again, so only what may be repeated.
    """
    if is_open(call.run.store, first.run_id, first.trace_id):
        return False
    assert call.step.skill is not None
    meta = call.step.skill.metadata
    return meta.in_doubt != "redispatch" or may_repeat(
        tool_class=call.tool_class,
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
        "honour the key; look, then resolve it, or call under another key if it did not"
    )


def call_in_time(call: Call, key: str) -> ToolCall:
    """The tool_call, which says when it was made; Lapsed where that is too late for its approval."""
    tool_call, decided = artifacts.tool_call(call, key), call.trace.decision
    assert decided is not None
    approved, made = decided.ts, tool_call.ts
    if made[:MINUTE] != approved[:MINUTE] and parse_ts(made) // 1000 >= parse_ts(approved) // 1000 + LIFETIME_S:
        raise Lapsed(tool_call)
    return tool_call
