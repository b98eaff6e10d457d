"""The end of a session: what is still open is ended, the calls become its plan, and the run is sealed."""

from __future__ import annotations

from reenact.contracts.records import Event, RunStatus
from reenact.record.reader import requests_before
from reenact.runtime.call.ending import leave_keys_in_doubt
from reenact.runtime.crash_points import reach
from reenact.runtime.listeners import Notice
from reenact.runtime.run import Run
from reenact.runtime.session.history import ask_again, session_plan, synthesize
from reenact.runtime.session.plan import Document


async def close(run: Run, said: Document | None) -> RunStatus:
    """Seal the run. `said` is the agent's last word, where it finished.

    Parked, and nothing is ended, where a call is in doubt that only a person can settle. Any other that was given up on
    ends here: only who cancels a run seals it over an open call.
    """
    await run.journal.flush()
    unknown = await ask_again(run)
    if unknown and run.cancel_note is None:
        raise next(iter(unknown.values()))
    for trace in list(run.journal.fold.open.values()):
        if trace.trace_id not in unknown:
            await synthesize(run, trace)
    status: RunStatus = "completed"
    asked = run.stopping()
    if asked is not None:
        run.note_cancel_request(asked)
        leave_keys_in_doubt(run)
        status = "cancelled"
    seal(run, status, reason=None if said is None else run.journal.book.put(said)[0])
    run.listeners.tell(Notice(kind="run_ended", run_id=run.run_id, status=status))
    reach("before_seal")
    await run.journal.flush()
    reach("after_seal")
    return status


def seal(run: Run, status: RunStatus, *, reason: str | None = None) -> None:
    """Stage the end of a session: the calls that were made as its plan, and the seal over it."""
    requests = requests_before(run.store, run.run_id, run.journal.fold.head)
    document, digest = session_plan(run).assemble(requests)
    data, ts = run.journal.book.put_as_it_is(document)[0], run.clock.timestamp()
    run.journal.event(Event(data=data, reason=reason, trace_id=None, ts=ts, type="finish", who=None))
    run.journal.seal(status, digest, run.journal.fold.requested)
