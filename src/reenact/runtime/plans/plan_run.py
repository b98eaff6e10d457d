"""Run a plan: each step through `drive`, in declared order, then the seal."""

from __future__ import annotations

import msgspec

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Event, RunStatus
from reenact.runtime.call import authorize as keys
from reenact.runtime.call import call as drive
from reenact.runtime.crash_points import reach
from reenact.runtime.gates.duplicate import DuplicateGate
from reenact.runtime.people import votes
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Execution, Fact
from reenact.runtime.writing.checkpoint_state import encoded, fresh_gate, read_past, remembered_gate


async def run_plan(ex: Execution) -> RunStatus:
    """From wherever the journal stands to the seal; raises Parked where a person is needed."""
    if ex.context.dedupe:
        gate = ex.duplicates = rebuild_duplicates(ex)
        ex.writer.kept_beside = lambda: (gate.digest(), encoded(gate))
    resumed = ex.fold.commits > 0
    if resumed:
        votes.hear(ex)
    stopped = any(ex.plan.step(index).on_error == "abort" for index in ex.fold.not_completed)
    index = ex.fold.done
    while index < len(ex.plan) and not stopped and ex.cancel_note is None:
        step = ex.plan.step(index)
        if resumed:
            drive.hold_without_skill(ex, step, step.definition_digest)
        begin_turn(ex, step)
        call = next_call(ex, step)
        outcome = await call.drive()
        stopped = aborts(step, outcome)
        index += 1
        if ex.writer.is_large:
            await call.make_durable()
    status: RunStatus = "failed" if stopped else "completed"
    if ex.cancel_note is not None:
        note_cancel(ex, ex.cancel_note)
        keys.leave_in_doubt(ex)
        status = "cancelled"
    await seal(ex, status)
    return status


async def leave_parked(ex: Execution) -> None:
    """What was staged before the run had to stop is a fact all the same, and the step it stops in says where it is."""
    for trace in ex.fold.open.values():
        drive.mark_parked(ex, trace)
    await ex.writer.flush()


def begin_turn(ex: Execution, step: PlannedStep) -> None:
    """In a session's plan a repetition counts within its turn."""
    if ex.plan.by_turn and (ex.duplicates is None or step.turn != ex.plan.turn):
        ex.plan.turn = step.turn
        ex.duplicates = fresh_gate(ex, step.turn)


def next_call(ex: Execution, step: PlannedStep) -> drive.Call:
    for trace in ex.fold.open.values():
        if trace.step_index == step.index:
            row = ex.store.trace(trace.trace_id, run_id=ex.run_id)
            return drive.resume(ex, trace, step, near=None if row is None else row.commit_n)
    return drive.start(ex, step)


def aborts(step: PlannedStep, outcome: StructuredOutcome) -> bool:
    return outcome.status == "failure" and step.on_error == "abort"


def note_cancel(ex: Execution, note: str) -> None:
    """The request of somebody else, as an event of the run."""
    asked = msgspec.json.decode(note, type=dict[str, str])
    data = ex.book.put({"reason": asked.get("reason", "")})[0]
    ts = ex.door.timestamp()
    ex.writer.event(Event(data=data, reason=None, trace_id=None, ts=ts, type="cancel", who=asked.get("who")))


async def seal(ex: Execution, status: RunStatus) -> None:
    """The end record of the run, in one commit with its last effect."""
    record = ex.fold.record
    assert record is not None
    if ex.before_seal is not None:
        await ex.before_seal(status)
    ex.writer.seal(status, record.plan_hash, len(ex.plan))
    ex.tell(Fact(kind="run_ended", run_id=ex.run_id, status=status))
    reach("before_seal")
    await ex.writer.flush()
    reach("after_seal")


def rebuild_duplicates(ex: Execution) -> DuplicateGate:
    """What the duplicate gate knew when the run was interrupted."""
    if ex.fold.commits == 0:
        return fresh_gate(ex)
    past = read_past(ex.store, ex.run_id)
    return remembered_gate(ex, 0, past, lambda recorded, _: ex.plan.step(recorded.trace.step_index))
