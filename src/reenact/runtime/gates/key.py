"""Third gate: what was done under the key that the caller gave, before anybody is asked about the call.

A call that succeeded under it answers this one. Another request under it is a conflict, one in flight is waited for,
and one in doubt refuses this call, unless its skill may follow it. The key is reserved later, in the transaction of the
tool_call (`authorize`), where it is looked at once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.contracts.facts import Facts
from reenact.policy.repeat import may_repeat
from reenact.record.payloads import StoredPayloads
from reenact.record.trace import is_open, load_trace, recorded_outcome
from reenact.runtime.call import artifacts
from reenact.runtime.gates.answer import Answered, Refusal
from reenact.runtime.parked import Parked
from reenact.store.base import KeyRecord, KeyReservation, Store
from reenact.store.location import to_type
from reenact.store.owner import owner_is_gone
from reenact.values.canonical import canonicalize
from reenact.values.difference import first_difference
from reenact.values.digest import hmac_hex

if TYPE_CHECKING:
    from reenact.runtime.call.call import Call

IN_FLIGHT_WAIT_S = 20.0
POLL_S = 0.05
NO_FACTS = Facts()


async def check(call: Call) -> Answered | Refusal | None:
    """What the key decides about a call in PENDING; None where the other gates are asked."""
    if not call.is_live:
        return call.run.source.key_gate(call.step)
    key = artifacts.idempotency_key(call)
    record = await settled_record(call, key)
    told = None if record is None else told_by(call, record, reservation(call, key))
    if told is None:
        await call.run.journal.flush()  # somebody may take the key before it is reserved, and then it is waited for
    return told


def reservation(call: Call, key: str) -> KeyReservation:
    """What this call asks for under the key."""
    run, step, parameters = call.run, call.step, call.parameters
    if run.key_run is None:
        digest = hmac_hex(run.plan.salt, canonicalize([step.skill_id, parameters]))
    else:
        digest = hmac_hex(run.store.key_secret, canonicalize(["request", step.server, step.tool, parameters]))
    return KeyReservation(step.server, step.tool, key, digest, run.plan.agent_id, call.trace_id)


async def settled_record(call: Call, key: str) -> KeyRecord | None:
    """What the store knows of the key: None when it is free. One in flight is waited for, within bounds.

    An approval is not made durable for it: it commits with the call, and so never lapses between the two.
    """
    waited, run, step = 0.0, call.run, call.step
    while True:
        record = run.store.key_record(step.server, step.tool, key)
        if record is None or record.state == "released" or record.trace_id == call.trace_id:
            return None
        if record.state in ("completed", "in_doubt"):
            return record
        if waited >= IN_FLIGHT_WAIT_S:
            hold_for_abandoned(call, record)
            return record
        if not waited:
            run.store.free_in_s(record.run_id)  # its holder is watched from here on
        if call.trace.state == "PENDING" and not waited:
            await run.journal.flush()
        await run.clock.sleep(POLL_S)
        waited += POLL_S


def hold_for_abandoned(call: Call, record: KeyRecord) -> None:
    """Parked where nobody works on the run that has the key: what comes of its call is known once that goes on."""
    store, row = call.run.store, call.run.store.open_run(record.run_id)
    if row is None:
        return
    left = store.free_in_s(row.run_id)
    if row.owner is None or owner_is_gone(row.owner) or (left is not None and left <= 0):
        resume = to_type(store.url, "resume", row.run_id)
        raise Parked(
            "held",
            f"step {call.step.step_id}: a call of run {row.run_id} has its key, and nobody works on that run; go on "
            f"with it first (`{resume}`), then with this one: it gets what comes of that call",
        )


def told_by(call: Call, record: KeyRecord, wanted: KeyReservation) -> Answered | Refusal | None:
    """What comes of a key that is taken; None where this call may follow one that is in doubt."""
    if record.agent_id != wanted.agent_id:
        return conflict(None)
    # Of a call that was erased only the agent is known; where its arguments are still there, they count.
    if record.request_digest != wanted.request_digest:
        pointer = difference(call, record)
        if record.request_digest is not None or pointer is not None:
            return conflict(pointer)
    if record.state == "in_doubt":
        return None if may_follow(call, record) else Refusal("key", "ERR_IN_DOUBT", doubtful(call.run.store, record))
    if record.state != "completed":
        return Refusal("key", "IDEMPOTENCY_IN_FLIGHT", "another run is executing a call with this key")
    outcome, output = recorded_outcome(call.run.store, record.run_id, record.trace_id, record.key)
    redactor = call.run.journal.book.redactor
    opened = redactor.decrypt(output)
    shut = redactor.why_shut(opened)
    if shut is not None:
        message = f"what the call under this key returned is encrypted: {shut}"
        return Refusal("key", "ERR_SECRET_UNAVAILABLE", message)
    return Answered(outcome, opened, record.trace_id)


def conflict(pointer: str | None) -> Refusal:
    message = "the key was used for another request"
    if pointer is None:
        return Refusal("key", "IDEMPOTENCY_CONFLICT", message)
    return Refusal("key", "IDEMPOTENCY_CONFLICT", f"{message}: it differs at {pointer}", {"pointer": pointer})


def difference(call: Call, record: KeyRecord) -> str | None:
    """The JSON Pointer of the first argument that is not as in the first call; None where that was erased."""
    store = call.run.store
    row = store.trace(record.trace_id, run_id=record.run_id)
    request = None if row is None else load_trace(store, row, until=row.commit_n)[0].request
    if row is None or request is None:
        return None
    try:
        first = StoredPayloads(store, record.run_id).get(str(request.proposal.args["$commit"]), near=row.commit_n)
    except LookupError:
        return None
    found = first_difference(call.run.journal.book.redactor.decrypt(first), call.parameters)
    return None if found is None else found.pointer


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
