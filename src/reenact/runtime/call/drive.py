"""Drive a call: perform the output of its state until the state is terminal. Fresh and crashed alike.

The states and what each does are the Moore table, `reenact.journal.machine`; a fresh call starts in PENDING, a
recovered one wherever its trace stands.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from reenact.contracts.outcome import StructuredOutcome
from reenact.journal.machine import OUTPUT, Output
from reenact.record.outcomes import denied_outcome_of, outcome_of, with_output
from reenact.runtime.call import artifacts, authorize, dispatch, ending
from reenact.runtime.call.call import Call
from reenact.runtime.gates import order
from reenact.runtime.gates.answer import Answered, NeedsApproval, Refusal
from reenact.runtime.gates.duplicate import touched
from reenact.runtime.parked import Parked


async def drive(call: Call) -> StructuredOutcome:
    """Until terminal. What the last state staged is not yet durable when this returns."""
    run, trace, outcome = call.run, call.trace, None
    if call.gate is not None and trace.state != "PENDING":
        call.claim = call.gate.hold(call)
    try:
        while outcome is None:
            outcome = await PERFORM[OUTPUT[trace.state]](call)
    except BaseException:
        if call.gate is not None and call.claim is not None:
            call.gate.release(call.claim)
        raise
    if run.gates.duplicates is not None and call.step.touches:
        remember(call, outcome)
    if run.listeners.any:
        known = {"code": outcome.code, "status": outcome.status, "outcome": call.shown(outcome)}
        run.listeners.tell(call.notice("step_ended", **known, **named(call)))
    return outcome


async def ask_gates(call: Call) -> StructuredOutcome | None:
    """PENDING: the gates decide; the decision is staged."""
    run = call.run
    try:
        answer = await order.ask(call)
        if isinstance(answer, Answered):
            return ending.answer(call, answer)
        if isinstance(answer, NeedsApproval):
            run.journal.status("waiting")
            await call.park()
            raise Parked("waiting", answer.reason)
        if isinstance(answer, Refusal):
            return ending.deny(call, answer)
        run.journal.entry(artifacts.decision(call, answer))
        return None
    finally:
        if run.gates.external is not None:
            run.gates.external.release(call.trace_id)


async def execute(call: Call) -> StructuredOutcome:
    """EXECUTING: the call is durable, then it is dispatched."""
    run = call.run
    await dispatch.make_durable(call)
    note = run.stopping()
    if note is not None:
        why = "the run was cancelled" if note.who else f"the run was ended: {note.reason}"
        return ending.refuse(call, "ERR_CANCELLED", why, holds_key=True)
    if run.listeners.any:
        run.listeners.tell_now(call.notice("step_started", **named(call)))
    try:
        return await dispatch.dispatch(call)
    except Parked:
        await call.park()
        raise


async def recorded_outcome(call: Call) -> StructuredOutcome:
    """COMPLETED, FAILED or DENIED already."""
    if call.trace.state == "DENIED":
        return denied_outcome_of(call.trace, {})
    outcome, output = outcome_of(call.run.journal.book, call.trace)
    return with_output(outcome, output) if outcome.ok else outcome


PERFORM: dict[Output, Callable[[Call], Awaitable[StructuredOutcome | None]]] = {
    "ask_gates": ask_gates,
    "authorize": authorize.authorize,
    "dispatch": execute,
    "return_outcome": recorded_outcome,
}


def named(call: Call) -> dict[str, object]:
    """What telemetry knows a call by."""
    made = call.trace.call
    return {"skill_id": call.step.skill_id, "tool_call_id": None if made is None else made.tool_call_id}


def remember(call: Call, outcome: StructuredOutcome) -> None:
    """A write is noticed by the turn that the run has come to, a success counts in the call's own."""
    current = call.run.gates.duplicates
    if current is not None and current is not call.gate and outcome.ok:
        current.forget(touched(call)[1])
    if call.gate is not None:
        call.gate.record(call, outcome, call.claim)
