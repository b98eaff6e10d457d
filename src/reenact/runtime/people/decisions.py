"""What people say about a run: approve, deny, resolve a doubt, cancel, break a lease. Recorded with who and why."""

from __future__ import annotations

from typing import Literal

from reenact.contracts.records import ENDED, RunStatus
from reenact.errors import LockAcquireFailed, RunNotFound, UsageError
from reenact.journal.fold import TraceFold
from reenact.record.state import load_fold
from reenact.runtime.call import ending
from reenact.runtime.engine import Engine
from reenact.runtime.listeners import Notice
from reenact.runtime.opening import reopen
from reenact.runtime.people import resolutions, votes
from reenact.runtime.people.votes import whoami
from reenact.runtime.run import Run
from reenact.runtime.session import closing
from reenact.runtime.session.reopening import reopen_session
from reenact.runtime.writing.redaction import Redactor
from reenact.store.base import BrokenLease, RunRow
from reenact.store.keys.ballots import CancelRequest, sign_for
from reenact.store.owner import until_known
from reenact.values.ids import refuse_nul

Resolution = Literal["succeeded", "failed", "redispatch"]
MOST_WAITS = 20
WAIT_S = 0.1
LONGEST_REASON = 1000


def reopen_any(engine: Engine, row: RunRow) -> Run:
    return reopen_session(engine, row.run_id) if row.kind == "session" else reopen(engine, row.run_id)


# -- approve, deny -----------------------------------------------------------------------------------------------------


async def vote(
    engine: Engine, run_id: str, step_id: str | None, *, approve: bool, reason: str, who: str | None = None
) -> str:
    """Insert a vote about a call that waits; whoever goes on with the run appends the decision. Gives the step's id.

    A run that somebody holds gets it all the same: its holder hears of it.
    """
    row = engine.store.find_run(run_id)
    try:
        run = await reopen_parked(engine, row)
    except LockAcquireFailed:
        return cast_vote(engine, row.run_id, step_id, approve=approve, reason=reason, who=who)
    async with engine.held(run) as hold:
        hold.leave(row.status)
        fold = run.journal.fold
        votes.hear(run)
        unanswered = [trace for trace in fold.open.values() if is_unanswered(run, trace)]
        trace = votes.choose(run.store, fold, step_id, unanswered)
        said = votes.new_vote(trace, approve=approve, reason=reason, ts=run.clock.timestamp(), who=whoami(who))
        votes.enter(run, trace.trace_id, said)
        await run.journal.flush()
        hold.leave("waiting" if votes.asked(fold, run.store) else left_as(run))
    return trace.step_id


async def reopen_parked(engine: Engine, row: RunRow) -> Run:
    """The run with its lease. A plan that has just parked is about to give it back: that is waited for."""
    waits = MOST_WAITS if row.kind == "plan" and row.status == "waiting" else 0
    await until_known(engine.store, engine.clock, row.run_id)
    while True:
        try:
            return reopen_any(engine, row)
        except LockAcquireFailed:
            if not waits:
                raise
        waits -= 1
        await engine.clock.sleep(WAIT_S)


def is_unanswered(run: Run, trace: TraceFold) -> bool:
    return trace.state == "PENDING" and trace.trace_id not in run.journal.fold.votes


def cast_vote(engine: Engine, run_id: str, step_id: str | None, *, approve: bool, reason: str, who: str | None) -> str:
    """For a run in other hands: only what it was parked for is asked, all else is being decided there."""
    engine.store.authenticate(run_id)
    fold = load_fold(engine.store, run_id).fold
    trace = votes.choose(engine.store, fold, step_id, votes.asked(fold, engine.store))
    shown = Redactor(engine.secrets).redact_text(reason)
    said = votes.new_vote(trace, approve=approve, reason=shown, ts=engine.clock.timestamp(), who=whoami(who))
    votes.cast(engine.store, run_id, fold, trace, said)
    return trace.step_id


# -- resolve -----------------------------------------------------------------------------------------------------------


async def resolve(
    engine: Engine,
    run_id: str,
    step_id: str,
    resolution: Resolution,
    *,
    reason: str,
    who: str | None = None,
    output: object = None,
) -> bool:
    """A person's word about a call in doubt. It ends the call, or frees it to be sent again.

    False where somebody has the session open: it is left for that one, who hears it at the end of the block at the
    latest, or for whoever comes next.
    """
    if output is not None and resolution != "succeeded":
        raise UsageError(f"an output is what a call returned that succeeded; this one is said to be: {resolution}")
    refuse_nul("the reason", reason)
    row = engine.store.find_run(run_id)
    said = resolutions.Resolution(
        resolution=resolution, reason=reason, ts=engine.clock.timestamp(), who=whoami(who), output=output
    )
    await until_known(engine.store, engine.clock, row.run_id)
    try:
        run = reopen_any(engine, row)
    except LockAcquireFailed:
        if row.kind != "session":
            raise
        fold = load_fold(engine.store, row.run_id).fold
        redactor = Redactor(engine.secrets, (), engine.store.encryption_file)
        resolutions.leave(engine.store, redactor, fold, resolutions.in_doubt(fold, step_id), said)
        return False
    async with engine.held(run) as hold:
        hold.leave(row.status)
        journal = run.journal
        resolutions.hear(run)
        trace = resolutions.in_doubt(journal.fold, step_id)
        resolutions.record(run, trace, said)
        await journal.flush()
        left = [each for each in journal.fold.open.values() if each.state == "EXECUTING" and each is not trace]
        hold.leave("held" if left and row.status == "held" else left_as(run))
    return True


def left_as(run: Run) -> RunStatus:
    """The status of a run that somebody may go on with: held while an answer is lost, so that its money counts."""
    return "held" if any(resolutions.is_lost(trace) for trace in run.journal.fold.open.values()) else "pending"


# -- cancel ------------------------------------------------------------------------------------------------------------


async def cancel(engine: Engine, run_id: str, *, reason: str, who: str | None = None) -> bool:
    """End a run. One that somebody works on is asked to stop at its next commit: then False, it has not ended yet.

    Calls that are open stay as they are, and the seal says so.
    """
    refuse_nul("the reason", reason)
    row = engine.store.find_run(run_id)
    if row.status in ENDED:
        raise UsageError(f"run {row.run_id} has ended ({row.status})")
    await until_known(engine.store, engine.clock, row.run_id)
    try:
        run = reopen_any(engine, row)
    except LockAcquireFailed:
        shown = Redactor(engine.secrets).redact_text(reason)
        asked = CancelRequest(reason=shown, ts=engine.clock.timestamp(), who=whoami(who))
        record = load_fold(engine.store, row.run_id).fold.record
        if record is None:
            raise RunNotFound(f"run {row.run_id} has no run record") from None
        note = sign_for(engine.store, row.run_id, record.capability_key, "", asked)
        engine.store.request_cancel(row.run_id, note.decode())
        return False
    async with engine.held(run) as hold:
        hold.leave(row.status)
        journal, record = run.journal, run.journal.fold.record
        if record is None:
            raise RunNotFound(f"run {row.run_id} has no run record")
        resolutions.hear(run)
        run.note_cancel(reason, whoami(who))
        ending.leave_keys_in_doubt(run)
        if run.plan.is_session:
            closing.seal(run, "cancelled")
        else:
            journal.seal("cancelled", record.plan_hash, len(run.plan))
        run.listeners.tell(Notice(kind="run_ended", run_id=run.run_id, status="cancelled"))
        await journal.flush()
        hold.leave("cancelled")
    return True


# -- break-lease -------------------------------------------------------------------------------------------------------


def break_lease(engine: Engine, run_id: str, *, reason: str, who: str | None = None) -> BrokenLease | None:
    """Take a run from whoever holds it, whether that lives or not; None where nobody does.

    What the holder writes next is refused. A call that it has under way is in doubt for whoever goes on with the run.
    """
    row = engine.store.find_run(run_id)
    if row.status in ENDED:
        raise UsageError(f"run {row.run_id} has ended ({row.status}); nobody holds it")
    refuse_nul("the reason", reason)
    if len(reason) > LONGEST_REASON:
        raise UsageError(f"the reason stands in the record, with at most {LONGEST_REASON} characters")
    shown = Redactor(engine.secrets).redact_text(reason)
    return engine.store.break_lease(row.run_id, who=whoami(who), reason=shown)
