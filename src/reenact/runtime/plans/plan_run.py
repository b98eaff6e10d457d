"""Run a plan: each step is driven in declared order, then the run is sealed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import RunStatus
from reenact.runtime.call import begin, ending
from reenact.runtime.call.call import Call
from reenact.runtime.call.dispatch import make_durable
from reenact.runtime.call.drive import drive
from reenact.runtime.crash_points import reach
from reenact.runtime.gates.duplicate import DuplicateGate
from reenact.runtime.listeners import Notice
from reenact.runtime.people import votes
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Run
from reenact.runtime.writing.checkpoint_state import encoded, fresh_gate, read_past, remembered_gate

BeforeSeal = Callable[[RunStatus], Awaitable[None]]
"""Called when every step has ended: the last moment at which a run can say something about itself."""


async def run_plan(run: Run, before_seal: BeforeSeal | None = None) -> RunStatus:
    """From wherever the journal stands to the seal; raises Parked where a person is needed."""
    journal, plan = run.journal, run.plan
    if plan.plan.context.dedupe:
        gate = run.gates.duplicates = rebuild_duplicates(run)
        journal.kept_beside = lambda: (gate.digest(), encoded(gate))
    resumed = journal.fold.commits > 0
    if resumed:
        votes.hear(run)
        run.hold_forbidden()
    stopped = any(plan.step(index).on_error == "abort" for index in journal.fold.not_completed)
    index = journal.fold.done
    while index < len(plan) and not stopped and run.stopping() is None:
        if run.drain.asked:
            run.drain.refuse()
        step = plan.step(index)
        if resumed:
            begin.hold_without_skill(run, step, step.definition_digest)
        begin_turn(run, step)
        try:
            call = await run.searched(next_call, run, step)
        except Exception:  # what the step before it came to is known, whatever is wrong with this one
            await journal.flush()
            raise
        stopped = aborts(step, await drive(call))
        index += 1
        if journal.is_large:
            await make_durable(call)
    if resumed and stopped:
        run.stopping()  # whoever died was perhaps about to say so
    status = how_it_ended(run, stopped=stopped)
    if before_seal is not None:
        await before_seal(status)
    await seal(run, status)
    return status


def how_it_ended(run: Run, *, stopped: bool) -> RunStatus:
    """Where it is cancelled, that is staged."""
    if run.cancel_note is None:
        return "failed" if stopped else "completed"
    run.note_cancel_request(run.cancel_note)
    ending.leave_keys_in_doubt(run)
    return "cancelled"


async def leave_parked(run: Run) -> None:
    """What was staged before the run had to stop is recorded all the same, and the step it stops in says where."""
    for trace in run.journal.fold.open.values():
        begin.mark_parked(run, trace)
    await run.journal.flush()


def begin_turn(run: Run, step: PlannedStep) -> None:
    """In a session's plan a repetition counts within its turn."""
    if run.plan.by_turn and (run.gates.duplicates is None or step.turn != run.plan.turn):
        run.plan.turn = step.turn
        run.gates.duplicates = fresh_gate(run, step.turn)


def next_call(run: Run, step: PlannedStep) -> Call:
    for trace in run.journal.fold.open.values():
        if trace.step_index == step.index:
            row = run.store.trace(trace.trace_id, run_id=run.run_id)
            return begin.reopen(run, trace, step, near=None if row is None else row.commit_n)
    return begin.begin(run, step)


def aborts(step: PlannedStep, outcome: StructuredOutcome) -> bool:
    return outcome.status == "failure" and step.on_error == "abort"


async def seal(run: Run, status: RunStatus) -> None:
    """The end record of the run, in one commit with its last effect."""
    record = run.journal.fold.record
    assert record is not None
    run.journal.seal(status, record.plan_hash, len(run.plan))
    run.listeners.tell(Notice(kind="run_ended", run_id=run.run_id, status=status))
    reach("before_seal")
    await run.journal.flush()
    reach("after_seal")


def rebuild_duplicates(run: Run) -> DuplicateGate:
    """What the duplicate gate knew when the run was interrupted."""
    if run.journal.fold.commits == 0:
        return fresh_gate(run)
    past = read_past(run.store, run.run_id)
    return remembered_gate(run, 0, past, lambda recorded, _: run.plan.step(recorded.trace.step_index))
