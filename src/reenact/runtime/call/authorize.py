"""AUTHORIZED: stage the tool_call; with a caller's key, reserve it in the same transaction or serve what it did before.

Money that the agent's other runs count against is set apart in that transaction too.
"""

from __future__ import annotations

import dataclasses

from reenact.contracts.artifacts import ToolCall
from reenact.contracts.outcome import StructuredOutcome
from reenact.errors import FundsTaken, StoreError
from reenact.runtime.call import artifacts, ending, unrecorded
from reenact.runtime.call.call import Call
from reenact.runtime.call.capability import LIFETIME_S
from reenact.runtime.effects.source import KeyAnswer
from reenact.runtime.gates import budget
from reenact.runtime.gates import key as key_gate
from reenact.runtime.gates.answer import Answered, Refusal
from reenact.runtime.money import reserved_by
from reenact.store.base import Earmark, KeyReservation
from reenact.values.clock import parse_ts

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
    journal, wanted = call.run.journal, key_gate.reservation(call, key)
    if told is not None:
        await journal.flush()
        if not await journal.claim(call_in_time(call, key), wanted, money):
            journal.entry(call_in_time(call, key))
        return None
    taken = await taken_by(call, wanted, money)
    if taken is None:
        return None
    journal.entry(call_in_time(call, key))
    if isinstance(taken, Refusal):
        return ending.refuse(call, taken.code, taken.message)
    return ending.serve(call, taken.outcome, taken.output, taken.served_from)


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


async def taken_by(call: Call, wanted: KeyReservation, money: Earmark | None) -> Answered | Refusal | None:
    """Persist the call with its key; or, where that cannot be had any more, what comes of that."""
    while True:
        record = await key_gate.settled_record(call, wanted.key)
        taken = None if record is None else key_gate.told_by(call, record, wanted)
        if taken is not None:
            return taken
        reservation = wanted if record is None else dataclasses.replace(wanted, after=record.trace_id)
        if await call.run.journal.claim(call_in_time(call, wanted.key), reservation, money):
            if record is not None:
                call.run.in_doubt.add(call.trace_id)  # what is in doubt of the first call is in doubt of this one
            return None


def call_in_time(call: Call, key: str) -> ToolCall:
    """The tool_call, which says when it was made; Lapsed where that is too late for its approval."""
    tool_call, decided = artifacts.tool_call(call, key), call.trace.decision
    assert decided is not None
    approved, made = decided.ts, tool_call.ts
    if made[:MINUTE] != approved[:MINUTE] and parse_ts(made) // 1000 >= parse_ts(approved) // 1000 + LIFETIME_S:
        raise Lapsed(tool_call)
    return tool_call
