"""A session's past: calls that were left open, reopened or brought to an end."""

from __future__ import annotations

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Event
from reenact.errors import DamagedRecord
from reenact.journal.fold import TraceFold
from reenact.runtime.call import artifacts, begin, doubt, ending, lost
from reenact.runtime.call.call import Call
from reenact.runtime.call.dispatch import code_of, end_with_result
from reenact.runtime.call.drive import drive, remember
from reenact.runtime.effects.source import AttemptResult
from reenact.runtime.gates.answer import Refusal
from reenact.runtime.gates.duplicate import DuplicateGate, is_idempotent
from reenact.runtime.parked import InDoubt, Parked
from reenact.runtime.run import Run
from reenact.runtime.session.messages import INTERRUPTED
from reenact.runtime.session.plan import SessionPlan
from reenact.runtime.writing import checkpoint_state
from reenact.runtime.writing.checkpoint_state import Past


def reopen(run: Run, trace: TraceFold) -> Call:
    """A call that an earlier process left open, with the parameters that it recorded."""
    plan, book = session_plan(run), run.journal.book
    row = run.store.trace(trace.trace_id, run_id=run.run_id)
    near = None if row is None else row.commit_n
    assert trace.request is not None
    key = trace.meta("key")
    try:
        parameters = book.get(str(trace.request.proposal.args["$commit"]), near=near)
        caller_key = str(book.get(str(key), near=near)) if key is not None else None
    except LookupError:  # an open call's values are not erased
        said = f"run {run.run_id}, step {trace.step_id}: what the open call was asked with is gone"
        raise DamagedRecord(f"{said}; `reenact verify {run.run_id}`") from None
    assert isinstance(parameters, dict)
    step = plan.from_trace(trace, parameters, caller_key)
    call = begin.reopen(run, trace, step, near=near)
    if call.gate is None and run.gates.duplicates is not None and trace.state == "PENDING" and is_idempotent(step):
        # A call of an earlier turn that nobody has decided yet.
        call.gate = remembered_gate(run, step.turn, checkpoint_state.read_whole(run.store, run.run_id))
    return call


def session_plan(run: Run) -> SessionPlan:
    assert isinstance(run.plan, SessionPlan)
    return run.plan


def remembered_gate(run: Run, turn: int, past: Past) -> DuplicateGate:
    """What the duplicate gate knew of a turn when the session was interrupted."""
    plan = session_plan(run)
    return checkpoint_state.remembered_gate(
        run, turn, past, lambda recorded, parameters: plan.from_trace(recorded.trace, parameters, None)
    )


def may_wait(run: Run, trace: TraceFold) -> bool:
    """Whether a person was asked about this call and has not answered. Any other that is PENDING was given up on."""
    fold = run.journal.fold
    return trace.state == "PENDING" and trace.trace_id in fold.parked and trace.trace_id not in fold.votes


async def synthesize(run: Run, trace: TraceFold) -> None:
    """End an interrupted call with a result that says so, appended: the history is whole again, nothing is sent.

    What can be known of a call in doubt is asked first. Parked where its skill leaves that to a person, unless the
    caller was told of the doubt: that one stays open, and the session goes on.
    """
    call = reopen(run, trace)
    if may_wait(run, trace):
        return  # nothing was sent, and a person may still approve it
    if trace.state == "PENDING":
        ending.deny(call, Refusal("supervisor", "ERR_CANCELLED", "interrupted before it was decided"))
    elif trace.state == "AUTHORIZED":
        run.journal.entry(artifacts.tool_call(call, artifacts.idempotency_key(call)))
        ending.refuse(call, "ERR_CANCELLED", "interrupted before it was sent")
    else:
        try:
            await end_sent(call)
        except InDoubt:
            if not lost.is_told(call):
                raise
    await run.journal.flush()


async def ask_again(run: Run) -> dict[str, InDoubt]:
    """Ask once more about the calls in doubt that nobody may send again; by trace, those of which nobody can tell."""
    unknown: dict[str, InDoubt] = {}
    for trace in list(run.journal.fold.open.values()):
        if trace.state != "EXECUTING":
            continue
        call = reopen(run, trace)
        if lost.may_be_lost(call):
            run.in_doubt.add(trace.trace_id)
            try:
                await end_sent(call)
            except InDoubt as still:
                unknown[trace.trace_id] = still
    return unknown


async def end_sent(call: Call) -> None:
    """A call that was sent: again where a person said so, else with what is known of it, else as in doubt."""
    pinned, again = call.trace.meta("definition_digest"), doubt.released_by_person(call)
    known: AttemptResult | bool | None = None
    try:
        if again:
            begin.hold_without_skill(call.run, call.step, pinned)
        else:
            begin.hold_changed_skill(call.run, call.step, pinned)
            known = await doubt.known_result(call, call.trace.made, wait=False)
            if isinstance(known, AttemptResult):
                known = await lost.settled(call, known, code_of(call, known), call.trace.made)
    except Parked:
        await call.park()
        raise
    if again:
        await drive(call)
    elif isinstance(known, AttemptResult):
        remember(call, end_with_result(call, known))
    else:
        remember(call, end_in_doubt(call, did_not_happen=known is not None))


def end_in_doubt(call: Call, *, did_not_happen: bool) -> StructuredOutcome:
    """With the words that nobody knows, or that it did not happen."""
    run, ts = call.run, call.run.clock.timestamp()
    run.journal.event(Event(data=None, reason=None, trace_id=call.trace_id, ts=ts, type="synthesized", who=None))
    message = "interrupted; its read-back says that it did not happen" if did_not_happen else INTERRUPTED
    return ending.end(
        call,
        "FAILURE" if did_not_happen else "ERROR",
        "ERR_CANCELLED" if did_not_happen else "ERR_IN_DOUBT",
        message,
        details={"synthesized": True},
    )
