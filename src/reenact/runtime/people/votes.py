"""What a person says about a call that waits: into the journal, or on its way to whoever holds the run."""

from __future__ import annotations

import getpass

from msgspec import UNSET

from reenact.contracts.records import PendingVote, Vote
from reenact.errors import UsageError
from reenact.journal.fold import TraceFold
from reenact.journal.run_fold import RunFold
from reenact.runtime.listeners import Notice
from reenact.runtime.run import Run
from reenact.store.base import Store
from reenact.store.erasures import refuse_secret_name
from reenact.store.keys.ballots import sign_for, waiting_votes
from reenact.store.location import to_type
from reenact.values.ids import refuse_nul

LONGEST_NAME = 255


def whoami(who: str | None) -> str:
    if who and len(who) > LONGEST_NAME:
        raise UsageError(f"who says so is a name of at most {LONGEST_NAME} characters; this one has {len(who)}")
    if who:
        refuse_nul("who says so", who)
        refuse_secret_name(who)
        return who
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def new_vote(trace: TraceFold, *, approve: bool, reason: str, ts: str, who: str) -> PendingVote:
    refuse_nul("the reason", reason)
    assert trace.request is not None
    assert trace.request.digest is not UNSET
    return PendingVote(
        action_request_digest=str(trace.request.digest),
        arguments=str(trace.request.proposal.args["$commit"]),
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
    said, ignored = waiting_votes(run.store, run.run_id)
    for trace_id, vote in said.items():
        trace = run.journal.fold.open.get(trace_id)
        if trace is None or trace.state != "PENDING" or trace_id in run.journal.fold.votes:
            continue
        if is_about(vote, trace):
            enter(run, trace_id, vote)
    for trace_id, why in ignored.items():
        trace = run.journal.fold.open.get(trace_id)
        step_id = None if trace is None else trace.step_id
        message = f"a vote about it was ignored: {why}"
        run.listeners.tell_now(Notice(kind="vote_ignored", run_id=run.run_id, step_id=step_id, message=message))


def is_about(vote: PendingVote, trace: TraceFold) -> bool:
    """The request and the arguments that the person was shown are those that the call has."""
    request = trace.request
    if request is None or request.digest != vote.action_request_digest:
        return False
    return vote.arguments in (None, request.proposal.args.get("$commit"))


def cast(store: Store, run_id: str, fold: RunFold, trace: TraceFold, said: PendingVote) -> None:
    """Leave the vote, signed, for whoever holds the run: it needs no lease."""
    others = [other for other in asked(fold, store) if other.trace_id != trace.trace_id]
    assert fold.record is not None
    body = sign_for(store, run_id, fold.record.capability_key, trace.trace_id, said)
    ignored = trace.trace_id in waiting_votes(store, run_id)[1]
    junk = store.pending_votes(run_id).get(trace.trace_id) if ignored else None
    if not store.cast_vote(run_id, trace.trace_id, body, settles=not others, replaces=junk):
        raise UsageError(f"step {trace.step_id} of run {run_id} was voted on already, or the run has ended")


def asked(fold: RunFold, store: Store) -> list[TraceFold]:
    """The calls that a person was asked about, and has not answered, whether or not that was heard."""
    parked = [trace for trace in fold.open.values() if trace.state == "PENDING" and trace.trace_id in fold.parked]
    unheard = waiting_votes(store, fold.run_id)[0] if parked else {}
    return [trace for trace in parked if trace.trace_id not in fold.votes and trace.trace_id not in unheard]


def choose(store: Store, fold: RunFold, step_id: str | None, waiting: list[TraceFold]) -> TraceFold:
    """The call that a vote is about."""
    chosen = [trace for trace in waiting if step_id is None or trace.step_id == step_id]
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        names = ", ".join(trace.step_id for trace in chosen)
        raise UsageError(f"run {fold.run_id} waits about several steps ({names}); name one")
    pending = [trace for trace in fold.open.values() if trace.state == "PENDING" and step_id in (None, trace.step_id)]
    if pending:
        row = store.find_run(fold.run_id)
        go_on = row.how_to_go_on if row.kind != "plan" else f"`{to_type(store.url, 'resume', row.run_id)}` goes on"
        raise UsageError(f"step {pending[0].step_id} was voted on already; {go_on}")
    about = f"step {step_id}" if step_id else "any step"
    raise UsageError(f"run {fold.run_id} does not wait for a person about {about}")
