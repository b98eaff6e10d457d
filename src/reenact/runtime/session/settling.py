"""Settling: calls of a session that were left open, or waited for a person, are driven to their end.

`answer_open` gives the outcome of one to whoever makes the call again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable

from reenact.contracts.outcome import StructuredOutcome
from reenact.errors import WaitingForPerson
from reenact.journal.fold import TraceFold
from reenact.runtime.call import begin
from reenact.runtime.call.call import Call
from reenact.runtime.parked import Lost, Parked
from reenact.runtime.people import resolutions, votes
from reenact.runtime.run import Run
from reenact.runtime.session import history
from reenact.store.base import Store
from reenact.store.keys.ballots import waiting_votes
from reenact.store.location import to_type


def hear(run: Run) -> None:
    """What people said meanwhile; the run no longer waits where they have answered all."""
    votes.hear(run)
    resolutions.hear(run)
    if run.journal.has_staged and not waiting(run):
        goes_on(run)


def goes_on(run: Run) -> None:
    """The status of a session that works, with the next commit: held as long as an answer is lost."""
    run.journal.status(
        "held" if any(resolutions.is_lost(trace) for trace in run.journal.fold.open.values()) else "running"
    )


def waiting(run: Run) -> list[str]:
    """Ids of the calls that wait for a person."""
    undecided = [trace for trace in run.journal.fold.open.values() if history.may_wait(run, trace)]
    unheard = waiting_votes(run.store, run.run_id)[0] if undecided else {}
    return [trace.step_id for trace in undecided if trace.trace_id not in unheard]


def voted(run: Run) -> list[TraceFold]:
    """Open calls that a person has decided, and that were not sent yet."""
    fold = run.journal.fold
    return [trace for trace in fold.open.values() if trace.trace_id in fold.votes and trace.state != "EXECUTING"]


async def settle(
    run: Run,
    traces: Iterable[TraceFold],
    drive: Callable[[Call], Awaitable[StructuredOutcome]],
    in_flight: Container[str],
) -> list[StructuredOutcome]:
    """`drive` each to its end, but for those that are `in_flight` when their turn comes.

    Raises WaitingForPerson, after all others, where one cannot go on yet.
    """
    outcomes: list[StructuredOutcome] = []
    stopped: WaitingForPerson | None = None
    for trace in traces:
        if trace.trace_id in in_flight:
            continue
        run.drain.refuse()
        told = resolutions.is_lost(trace)
        try:
            outcomes.append(await drive(reopened(run, trace)))
        except Parked as parked:
            stopped = stopped or as_waiting(parked, run.store, run.run_id, trace.step_id)
            begin.mark_parked(run, trace)
        else:
            if told:
                goes_on(run)
    if stopped is not None:
        await run.journal.flush()
        raise stopped
    return outcomes


def reopened(run: Run, trace: TraceFold) -> Call:
    """A call that was left open, ready to be driven; Parked where its skill or its values are not there."""
    if trace.state == "EXECUTING":  # whoever made the call gave up on it, or is gone: it is in doubt
        run.in_doubt.add(trace.trace_id)
    call = history.reopen(run, trace)
    begin.hold_without_skill(run, call.step, trace.meta("definition_digest"))
    return call


async def answer_open(
    run: Run, trace: TraceFold, drive: Callable[[Call], Awaitable[StructuredOutcome]]
) -> StructuredOutcome:
    """`drive` a call that an earlier process left open to its end, as its skill says; what its caller gets, durable.

    Where nobody can tell what came of it that is on record from here on, once, and the caller is told so. Raises
    WaitingForPerson where the call waits for one.
    """
    try:
        return await drive(reopened(run, trace))
    except Lost as lost:
        return run.journal.book.redactor.hide_known(lost.outcome)
    except Parked as parked:
        begin.mark_parked(run, trace)
        await run.journal.flush()
        raise as_waiting(parked, run.store, run.run_id, trace.step_id) from None


def as_waiting(parked: Parked, store: Store, run_id: str, step_id: str | None = None) -> WaitingForPerson:
    """For the host, with what a person may say about it. What is held says that itself."""
    advice = f" (run {run_id})"
    if parked.status == "waiting":
        call = [run_id] if step_id is None else [run_id, step_id]
        approve, deny = (to_type(store.url, word, *call, "--reason", "…") for word in ("approve", "deny"))
        advice = f"; a person says `{approve}` or `{deny}`"
    return WaitingForPerson(f"{parked}{advice}", status=parked.status, run_id=run_id, step_id=step_id)
