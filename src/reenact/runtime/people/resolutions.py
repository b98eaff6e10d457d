"""A person's word about a call in doubt: into the journal, or on its way to whoever has the session open."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reenact.contracts.records import Event
from reenact.errors import UsageError
from reenact.journal.fold import TraceFold
from reenact.journal.run_fold import RunFold
from reenact.runtime.call import ending
from reenact.runtime.call.call import Call
from reenact.runtime.parked import Parked
from reenact.runtime.run import Run
from reenact.runtime.session import history
from reenact.runtime.writing.redaction import Redactor
from reenact.store.base import Store
from reenact.store.keys.ballots import sign_for, waiting_words
from reenact.values.threads import build


class Resolution(Struct, frozen=True, kw_only=True):
    """What a person says. It waits in the store while somebody holds the run."""

    resolution: str
    """succeeded, failed or redispatch."""
    reason: str
    ts: str
    who: str
    output: object = None
    about: int = 0
    """The record of the lost answer that it is about, by its ordinal."""


def record(run: Run, trace: TraceFold, said: Resolution) -> None:
    """Stage it: it ends the call, or frees it to be sent again."""
    journal = run.journal
    data = journal.book.put({"resolution": said.resolution, "reason": said.reason})[0]
    freed = data if said.resolution == "redispatch" else None
    journal.event(Event(data=data, reason=freed, trace_id=trace.trace_id, ts=said.ts, type="resolve", who=said.who))
    if said.resolution != "redispatch":
        succeeded = said.resolution == "succeeded"
        ending.end_by_person(open_call(run, trace), succeeded=succeeded, output=said.output)


def open_call(run: Run, trace: TraceFold) -> Call:
    """The call behind an open trace, of a plan or a session; it is not driven, so its values need not be there."""
    if run.plan.is_session:
        return history.reopen(run, trace)
    call = Call(run, run.plan.step(trace.step_index), {}, is_live=True)
    call.trace = trace
    return call


def in_doubt(fold: RunFold, step_id: str) -> TraceFold:
    """The call that it is about; UsageError where that is not in doubt."""
    trace = next((trace for trace in fold.open.values() if trace.step_id == step_id), None)
    if trace is None or trace.state != "EXECUTING":
        raise UsageError(f"step {step_id} of run {fold.run_id} is not in doubt")
    return trace


def leave(store: Store, redactor: Redactor, fold: RunFold, trace: TraceFold, said: Resolution) -> None:
    """For whoever holds the run: it needs no lease. A call that is under way there is nobody else's to judge."""
    if not is_lost(trace):
        raise UsageError(f"step {trace.step_id} of run {fold.run_id} is under way where the session is open")
    before = store.pending_votes(fold.run_id).get(trace.trace_id)
    heard = before if unheard(fold, trace, waiting_words(store, fold.run_id)[0].get(trace.trace_id)) is None else None
    value = redactor.redact(msgspec.to_builtins(replace(said, about=trace.attempts[-1].ordinal)))
    assert fold.record is not None
    body = sign_for(store, fold.run_id, fold.record.capability_key, trace.trace_id, value)
    if not store.cast_vote(fold.run_id, trace.trace_id, body, settles=False, replaces=heard):
        raise UsageError(f"step {trace.step_id} of run {fold.run_id} was resolved already, or the run has ended")


def is_lost(trace: TraceFold) -> bool:
    return bool(trace.attempts) and trace.attempts[-1].kind == "lost"


def unheard(fold: RunFold, trace: TraceFold, value: object) -> object:
    """What lies there, unless it is in the journal: a vote about a call that was sent since, or an earlier word."""
    about = value.get("about") if isinstance(value, dict) and "resolution" in value else None
    return value if about == trace.attempts[-1].ordinal and trace.trace_id not in fold.freed else None


def hear(run: Run) -> None:
    """Stage what people said about lost answers while somebody held the run."""
    doubtful = [trace for trace in run.journal.fold.open.values() if trace.state == "EXECUTING" and is_lost(trace)]
    words = waiting_words(run.store, run.run_id)[0] if doubtful else {}
    for trace in doubtful:
        value = unheard(run.journal.fold, trace, words.get(trace.trace_id))
        if value is not None:
            record(run, trace, msgspec.convert(opened(run, trace, value), Resolution))


def opened(run: Run, trace: TraceFold, value: object) -> object:
    redactor = run.journal.book.redactor
    found = redactor.decrypt(value, passed_on=True)
    shut = redactor.why_shut(found)
    if shut is not None:
        raise Parked("held", f"what a person said of step {trace.step_id} is encrypted: {shut} to go on")
    return found


build(Resolution)
