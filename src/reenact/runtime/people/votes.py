"""What a person says about a call that waits: into the journal, or on its way to whoever holds the run."""

from __future__ import annotations

import getpass

import msgspec
from msgspec import UNSET

from reenact.contracts.records import PendingVote, Vote
from reenact.errors import UsageError
from reenact.journal.fold import TraceFold
from reenact.journal.run_fold import RunFold
from reenact.runtime.run import Run
from reenact.store.base import Store
from reenact.values.canonical import canonicalize, parse_canonical

LONGEST_NAME = 255


def whoami(who: str | None) -> str:
    if who and len(who) > LONGEST_NAME:
        raise UsageError(f"who says so is a name of at most {LONGEST_NAME} characters; this one has {len(who)}")
    if who:
        return who
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def new_vote(trace: TraceFold, *, approve: bool, reason: str, ts: str, who: str) -> PendingVote:
    assert trace.request is not None
    assert trace.request.digest is not UNSET
    return PendingVote(
        action_request_digest=str(trace.request.digest),
        decision="APPROVE" if approve else "DENY",
        reason=reason,
        ts=ts,
        who=who,
    )


def enter(run: Run, trace_id: str, said: PendingVote) -> None:
    """Stage the vote: from its commit on it is part of the run."""
    run.journal.vote(
        Vote(
            action_request_digest=said.action_request_digest,
            decision=said.decision,
            reason=run.journal.book.put({"reason": said.reason})[0],
            trace_id=trace_id,
            ts=said.ts,
            who=said.who,
        )
    )


def hear(run: Run) -> None:
    """Stage the votes that came while somebody held the run. Where none is asked for any more the run goes on."""
    if not any(trace.state == "PENDING" for trace in run.journal.fold.open.values()):
        return
    for trace_id, body in run.store.pending_votes(run.run_id).items():
        trace = run.journal.fold.open.get(trace_id)
        if trace is None or trace.state != "PENDING" or trace_id in run.journal.fold.votes:
            continue
        said = msgspec.convert(parse_canonical(body), PendingVote)
        if trace.request is not None and trace.request.digest == said.action_request_digest:
            enter(run, trace_id, said)


def cast(store: Store, run_id: str, fold: RunFold, trace: TraceFold, said: PendingVote) -> None:
    """Leave the vote for whoever holds the run: it needs no lease."""
    others = [other for other in asked(fold, store) if other.trace_id != trace.trace_id]
    if not store.cast_vote(run_id, trace.trace_id, canonicalize(said), settles=not others):
        raise UsageError(f"step {trace.step_id} of run {run_id} was voted on already, or the run has ended")


def asked(fold: RunFold, store: Store) -> list[TraceFold]:
    """The calls that a person was asked about, and has not answered, whether or not that was heard."""
    parked = [trace for trace in fold.open.values() if trace.state == "PENDING" and trace.trace_id in fold.parked]
    unheard = store.pending_votes(fold.run_id) if parked else {}
    return [trace for trace in parked if trace.trace_id not in fold.votes and trace.trace_id not in unheard]


def choose(fold: RunFold, step_id: str | None, waiting: list[TraceFold]) -> TraceFold:
    """The call that a vote is about."""
    chosen = [trace for trace in waiting if step_id is None or trace.step_id == step_id]
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        names = ", ".join(trace.step_id for trace in chosen)
        raise UsageError(f"run {fold.run_id} waits about several steps ({names}); name one")
    pending = [trace for trace in fold.open.values() if trace.state == "PENDING" and step_id in (None, trace.step_id)]
    if pending:
        raise UsageError(f"step {pending[0].step_id} was voted on already; `reenact resume {fold.run_id}` goes on")
    about = f"step {step_id}" if step_id else "any step"
    raise UsageError(f"run {fold.run_id} does not wait for a person about {about}")
