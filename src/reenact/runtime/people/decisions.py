"""What people say about a run: approve or deny a call, resolve one in doubt, cancel. Recorded with who and why."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Literal

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Event
from reenact.errors import LockAcquireFailed, RunNotFound, UsageError
from reenact.journal.fold import TraceFold
from reenact.runtime.call import authorize as keys
from reenact.runtime.call import doubt
from reenact.runtime.people import votes
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.recovery import load_fold
from reenact.runtime.run import Execution, Fact
from reenact.runtime.session import history as session_history
from reenact.runtime.session.plan import SessionPlan
from reenact.runtime.writing.redaction import Redactor
from reenact.store.base import RunRow
from reenact.values.canonical import canonicalize

if TYPE_CHECKING:
    from reenact.runtime.runtime import Runtime

Resolution = Literal["succeeded", "failed", "redispatch"]
LONGEST_NAME = 255
MOST_WAITS = 20
WAIT_S = 0.1


def whoami(who: str | None) -> str:
    if who and len(who) > LONGEST_NAME:
        raise UsageError(f"who says so is a name of at most {LONGEST_NAME} characters; this one has {len(who)}")
    if who:
        return who
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


async def vote(
    runtime: Runtime, run_id: str, step_id: str | None, *, approve: bool, reason: str, who: str | None = None
) -> str:
    """Insert a vote about a call that waits; whoever goes on with the run appends the decision. Gives the step's id.

    A run that somebody holds gets it all the same: its holder hears of it.
    """
    row = runtime.store.find_run(run_id)
    try:
        ex = await reopen_parked(runtime, row)
    except LockAcquireFailed:
        return cast_vote(runtime, row.run_id, step_id, approve=approve, reason=reason, who=who)
    status = row.status
    try:
        votes.hear(ex)
        unanswered = [trace for trace in ex.fold.open.values() if is_unanswered(ex, trace)]
        trace = votes.choose(ex.fold, step_id, unanswered)
        ts = ex.door.timestamp()
        votes.enter(ex, trace.trace_id, votes.new_vote(trace, approve=approve, reason=reason, ts=ts, who=whoami(who)))
        await ex.writer.flush()
        status = "waiting" if votes.asked(ex.fold, ex.store) else "pending"
        return trace.step_id
    finally:
        if ex.writer.lease is not None:
            runtime.store.release(ex.writer.lease, status)


async def reopen_parked(runtime: Runtime, row: RunRow) -> Execution:
    """The run with its lease. A plan that has just parked is about to give it back: that is waited for."""
    waits = MOST_WAITS if row.kind == "plan" and row.status == "waiting" else 0
    while True:
        try:
            return runtime.reopen_run(row.run_id)
        except LockAcquireFailed:
            if not waits:
                raise
        waits -= 1
        await runtime.door.sleep(WAIT_S)


def is_unanswered(ex: Execution, trace: TraceFold) -> bool:
    return trace.state == "PENDING" and trace.trace_id not in ex.fold.votes


def cast_vote(
    runtime: Runtime, run_id: str, step_id: str | None, *, approve: bool, reason: str, who: str | None
) -> str:
    """For a run in other hands: only what it was parked for is asked, all else is being decided there."""
    fold = load_fold(runtime.store, run_id).fold
    trace = votes.choose(fold, step_id, votes.asked(fold, runtime.store))
    shown = Redactor(runtime.secrets).redact_text(reason)
    ts = runtime.door.timestamp()
    said = votes.new_vote(trace, approve=approve, reason=shown, ts=ts, who=whoami(who))
    votes.cast(runtime.store, run_id, fold, trace, said)
    return trace.step_id


async def resolve(
    runtime: Runtime,
    run_id: str,
    step_id: str,
    resolution: Resolution,
    *,
    reason: str,
    who: str | None = None,
    output: object = None,
) -> None:
    """A person's word about a call in doubt. It ends the call, or frees it to be sent again."""
    if output is not None and resolution != "succeeded":
        raise UsageError(f"an output is what a call returned that succeeded; this one is said to be: {resolution}")
    row = runtime.store.find_run(run_id)
    ex = runtime.reopen_run(row.run_id)
    status = row.status
    try:
        trace = next((trace for trace in ex.fold.open.values() if trace.step_id == step_id), None)
        if trace is None or trace.state != "EXECUTING":
            raise UsageError(f"step {step_id} of run {ex.run_id} is not in doubt")
        data = ex.book.put({"resolution": resolution, "reason": reason})[0]
        freed = data if resolution == "redispatch" else None
        ts = ex.door.timestamp()
        ex.writer.event(Event(data=data, reason=freed, trace_id=trace.trace_id, ts=ts, type="resolve", who=whoami(who)))
        if resolution != "redispatch":
            step = runtime.step_of(ex, trace)
            keys.finish(
                ex, trace, step, end_by_word(ex, trace, step, succeeded=resolution == "succeeded", output=output)
            )
        await ex.writer.flush()
        status = "pending"
    finally:
        if ex.writer.lease is not None:
            runtime.store.release(ex.writer.lease, status)


def end_by_word(
    ex: Execution, trace: TraceFold, step: PlannedStep, *, succeeded: bool, output: object
) -> StructuredOutcome:
    """The effect as a person tells it; nothing was dispatched for it."""
    return doubt.end_undispatched(
        ex,
        trace,
        step,
        code=step.success_code if succeeded else "ERR_IN_DOUBT",
        message="a person says that it succeeded" if succeeded else "a person says that it failed",
        details={"resolved_by": "person"},
        status="SUCCESS" if succeeded else "FAILURE",
        output=output,
    )


async def cancel(runtime: Runtime, run_id: str, *, reason: str, who: str | None = None) -> bool:
    """End a run. One that somebody works on is asked to stop at its next commit: then False, it has not ended yet.

    Calls that are open stay as they are, and the seal says so.
    """
    row = runtime.store.find_run(run_id)
    if row.status in ("completed", "failed", "cancelled"):
        raise UsageError(f"run {row.run_id} has ended ({row.status})")
    try:
        ex = runtime.reopen_run(row.run_id)
    except LockAcquireFailed:
        shown = Redactor(runtime.secrets).redact_text(reason)
        note = canonicalize({"who": whoami(who), "reason": shown}).decode()
        runtime.store.request_cancel(row.run_id, note)
        return False
    sealed = False
    try:
        ts = ex.door.timestamp()
        data = ex.book.put({"reason": reason})[0]
        ex.writer.event(Event(data=data, reason=None, trace_id=None, ts=ts, type="cancel", who=whoami(who)))
        record = ex.fold.record
        if record is None:
            raise RunNotFound(f"run {row.run_id} has no run record")
        keys.leave_in_doubt(ex)
        if isinstance(ex.plan, SessionPlan):
            session_history.seal(ex, ex.plan, "cancelled")
        else:
            ex.writer.seal("cancelled", record.plan_hash, len(ex.plan))
        ex.tell(Fact(kind="run_ended", run_id=ex.run_id, status="cancelled"))
        await ex.writer.flush()
        sealed = True
    finally:
        if ex.writer.lease is not None:
            runtime.store.release(ex.writer.lease, "cancelled" if sealed else row.status)
    return True
