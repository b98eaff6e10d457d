"""The writer of one run: stages records in the order of their making, commits them together, seals."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import NamedTuple

from msgspec.structs import replace

from reenact.contracts.records import Attempt, Event, RunCheckpoint, RunRecord, RunStatus, Seal, Vote
from reenact.errors import FundsTaken, KeyTaken, StoreError
from reenact.journal import chain, frontier
from reenact.journal.chain import Logged
from reenact.journal.fold import TraceFold
from reenact.journal.merkle import MerkleTree
from reenact.journal.run_fold import RunFold, attempt_leaf
from reenact.runtime.crash_points import reach
from reenact.runtime.writing.committer import Committer
from reenact.runtime.writing.payloads import PayloadBook
from reenact.store.base import Earmark, KeyCompletion, KeyReservation, Lease, NewPayload, NewRun, NewTrace, Unit
from reenact.values.clock import Door
from reenact.values.digest import ZERO_DIGEST

CHECKPOINT_STEPS = 256
LARGE_COMMIT = 512
"""Payloads. A commit holds at most 4,095 of them: calls side by side, and calls while the store cannot be written, may
stage more, which then goes into several commits."""


class TraceLines:
    """What one trace adds to a commit."""

    __slots__ = ("attempts", "begins", "lines", "step_index")

    def __init__(self, step_index: int, *, begins: bool) -> None:
        self.step_index = step_index
        self.begins = begins
        self.lines: list[bytes] = []
        self.attempts: list[bytes] = []
        """Leaves of the seal's tree of attempts."""


IN_ORDER = attrgetter("begins", "step_index")


class Staged:
    """Records on their way into one commit."""

    def __init__(self) -> None:
        self.run: list[bytes] = []
        self.events: list[tuple[str, bytes]] = []
        self.votes: list[bytes] = []
        self.traces: dict[str, TraceLines] = {}
        self.checkpoints: dict[int, bytes] = {}
        self.run_checkpoint: RunCheckpoint | None = None
        self.frontier: bytes | None = None
        self.seal: Seal | None = None
        self.sealed: Seal | None = None
        """The seal as it stands in the body."""
        self.status: RunStatus | None = None
        self.new_run: NewRun | None = None
        self.new_traces: list[NewTrace] = []
        self.reservations: list[KeyReservation] = []
        self.completions: list[KeyCompletion] = []
        self.earmarks: list[Earmark] = []
        self.ended: list[str] = []
        self.spent: list[tuple[str, str, str, int]] = []
        self.after: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self.run or self.events or self.votes or self.traces or self.checkpoints or self.seal)

    def trace(self, trace_id: str, step_index: int, *, begins: bool = False) -> TraceLines:
        lines = self.traces.get(trace_id)
        if lines is None:
            lines = self.traces[trace_id] = TraceLines(step_index, begins=begins)
        return lines

    def absorb(self, later: Staged) -> Staged:
        """What was staged meanwhile, behind this."""
        for name in (
            "run",
            "events",
            "votes",
            "new_traces",
            "reservations",
            "completions",
            "earmarks",
            "ended",
            "spent",
            "after",
        ):
            getattr(self, name).extend(getattr(later, name))
        for trace_id, lines in later.traces.items():
            mine = self.trace(trace_id, lines.step_index, begins=lines.begins)
            mine.lines += lines.lines
            mine.attempts += lines.attempts
        self.checkpoints |= later.checkpoints
        self.seal = later.seal or self.seal
        self.forget_run_checkpoint()
        self.status = later.status or self.status
        return self

    def forget_run_checkpoint(self) -> None:
        """It is made anew from what is staged then."""
        self.run_checkpoint = self.frontier = None

    def ordered(self) -> list[TraceLines]:
        """In the format's order: traces that began earlier, then new ones, each by step index."""
        return sorted(self.traces.values(), key=IN_ORDER)

    def lines(self, traces: list[TraceLines]) -> list[bytes]:
        """All of them, given the traces in order."""
        found = [*self.run]
        if self.events:  # sorted, since a clock may have been set back between two events
            found += [line for _, line in sorted(self.events, key=itemgetter(0))]
        found += self.votes
        for trace in traces:
            found += trace.lines
        if self.checkpoints:
            found += [line for _, line in sorted(self.checkpoints.items())]
        return found


class StagedMoney(NamedTuple):
    """What no transaction has counted yet, by model, of one agent on one day."""

    spent: Counter[str]
    apart: Counter[str]
    ended: set[str]
    """Traces for which nothing is set apart any more, whatever the store still says."""


class Group:
    """Enough for a commit, with its payloads: nothing is added to it any more."""

    __slots__ = ("payloads", "shared", "staged")

    def __init__(self, staged: Staged, payloads: list[NewPayload], shared: list[tuple[str, int]]) -> None:
        self.staged = staged
        self.payloads = payloads
        self.shared = shared


class RunWriter:
    """Appends to a run under a lease. What is staged is not durable before `flush` returns."""

    def __init__(
        self,
        committer: Committer,
        fold: RunFold,
        book: PayloadBook,
        door: Door,
        *,
        lease: Lease | None,
        owner: str,
    ) -> None:
        self._committer = committer
        self.fold = fold
        self.book = book
        self.door = door
        self.lease = lease
        self._owner = owner
        self._staged = Staged()
        self._full: deque[Group] = deque()
        """Staged before what is in `_staged`, and committed before it."""
        self._lock = asyncio.Lock()
        self._checkpointed = fold.done
        self.reserved_exact: Callable[[], int] = lambda: 0
        self.kept_beside: Callable[[], tuple[str, bytes]] | None = None
        """(digest of the duplicates, what recovery needs besides the journal), for a run checkpoint."""
        self.sets_apart = False
        """Money may be set apart for calls, which then goes with their end."""

    # -- staging ---------------------------------------------------------------------------------------------------

    def run(self, record: RunRecord, new_run: NewRun) -> None:
        self.fold.apply_run(record)
        self._staged.run.append(chain.run_line(record))
        self._staged.new_run = new_run

    def entry(self, logged: Logged) -> TraceFold:
        trace = self.fold.apply_entry(logged.entry, logged.artifact, recompute=False)
        staged, begins = self._staged, logged.entry.sequence_number == 1
        lines = staged.traces.get(trace.trace_id) or staged.trace(trace.trace_id, trace.step_index, begins=begins)
        lines.lines.append(logged.line)
        if begins:
            staged.new_traces.append(NewTrace(trace.trace_id, trace.step_index, trace.step_id))
        elif self.sets_apart and trace.terminal:
            staged.ended.append(trace.trace_id)
        return trace

    def attempt(self, attempt: Attempt) -> Attempt:
        digested, line = chain.digested_attempt(attempt)
        trace = self.fold.trace(attempt.trace_id)
        trace.add_attempt(digested, recompute=False)
        staged = self._staged.trace(attempt.trace_id, trace.step_index)
        staged.lines.append(line)
        staged.attempts.append(attempt_leaf(digested))
        return digested

    def event(self, event: Event) -> None:
        self.fold.apply_event(event)
        self._staged.events.append((event.ts, chain.event_line(event)))

    def vote(self, vote: Vote) -> None:
        digested = chain.with_digest(vote)
        self.fold.votes[vote.trace_id] = digested
        self._staged.votes.append(chain.vote_line(digested))

    def checkpoint(self, trace: TraceFold) -> None:
        """A trace that parks leaves a checkpoint of where it stands; one that did so already does not again."""
        if self.fold.parked.get(trace.trace_id) == trace.sequence:
            return
        self.fold.parked[trace.trace_id] = trace.sequence
        state = chain.state_of(trace.trace_id, trace.plan_id, trace.state, trace.sequence, trace.head)
        line = chain.checkpoint_line(chain.checkpoint_of(state, self.door.timestamp()))
        self._staged.checkpoints[trace.step_index] = line

    def complete(self, completion: KeyCompletion) -> None:
        self._staged.completions.append(completion)

    def spend(self, day: str, agent: str, model: str, exact: int) -> None:
        self._staged.spent.append((day, agent, model, exact))

    def staged_money(self, day: str, agent: str, besides: str) -> StagedMoney:
        """Leaves out what is set apart for the trace `besides`, and what is on its way to the store just now."""
        spent, apart = Counter[str](), Counter[str]()
        waiting = [*(group.staged for group in self._full), self._staged]
        ended = {trace_id for staged in waiting for trace_id in staged.ended}
        for staged in waiting:
            for of_day, of_agent, model, exact in staged.spent:
                spent[model] += exact if (of_day, of_agent) == (day, agent) else 0
            for each in staged.earmarks:
                counts = (each.day, each.agent_id) == (day, agent) and each.trace_id not in (besides, *ended)
                apart[each.model] += each.exact if counts else 0
        return StagedMoney(spent, apart, ended)

    def status(self, status: RunStatus) -> None:
        self._staged.status = status

    def seal(self, status: RunStatus, plan_hash: str | None, steps_planned: int) -> None:
        self._staged.seal = Seal(
            attempts_root="",
            commits=0,
            plan_hash=plan_hash,
            prev_store_seal=ZERO_DIGEST,
            root=self.fold.full_root(),
            run_head="",
            run_id=self.fold.run_id,
            sealed_at=self.door.timestamp(),
            status=status,
            steps_planned=steps_planned,
            traces=self.fold.requested,
        )
        self._staged.status = status

    def after_commit(self, tell: Callable[[], None]) -> None:
        """Called once what is staged is durable: listeners never hear of what may yet be lost."""
        self._staged.after.append(tell)

    @property
    def has_staged(self) -> bool:
        return bool(self._staged or self._full)

    @property
    def is_large(self) -> bool:
        """Enough is staged for a commit: refused steps wait for nothing that would flush them."""
        return len(self.book.pending) >= LARGE_COMMIT

    # -- committing ------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Make everything staged durable. Raises ConcurrentExecution when fenced off.

        It is one transaction, unless more is staged than a commit shall hold; then what the caller staged since it last
        waited for something is in one of them.
        """
        if self.is_large:
            self._close_group()
        lock = self._lock
        await lock.acquire()  # not as a context: it is entered for every step
        try:
            if self._full:
                await self._commit_full()
            if not self._staged:
                return
            after, interrupted = await self._commit_staged()
        finally:
            lock.release()
        tell_all(after, interrupted)

    async def claim(
        self, call: Logged, reservation: KeyReservation | None = None, earmark: Earmark | None = None
    ) -> bool:
        """Make a tool_call, and all that is staged, durable in one transaction with what the call reserves.

        False when another call holds the key by now, FundsTaken when others took the money: then nothing was written,
        and what was staged before still is.
        """
        if self.is_large:
            self._close_group()
        async with self._lock:
            if self._full:
                await self._commit_full()
            trace = self.fold.trace(call.entry.trace_id)
            before = (trace.state, trace.sequence, trace.head, trace.attempts_head)
            self.entry(call)
            self._staged.reservations += [] if reservation is None else [reservation]
            self._staged.earmarks += [] if earmark is None else [earmark]
            try:
                after, interrupted = await self._commit_staged()
            except (KeyTaken, FundsTaken) as taken:
                trace.state, trace.sequence, trace.head, trace.attempts_head = before
                self._take_back(trace, call, reservation, earmark)
                if isinstance(taken, FundsTaken):
                    raise
                return False
            except StoreError:
                if earmark is not None:
                    earmark.binding = False  # it is written with what comes next, which it must not refuse
                raise
        tell_all(after, interrupted)
        return True

    def _take_back(
        self, trace: TraceFold, call: Logged, reservation: KeyReservation | None, earmark: Earmark | None
    ) -> None:
        """The tool_call that was staged last in its trace."""
        trace.call = None
        held_by = (self._staged, *(group.staged for group in self._full))
        staged = next(
            staged for staged in held_by if (of := staged.traces.get(trace.trace_id)) and call.line in of.lines
        )
        lines = staged.traces[trace.trace_id].lines
        lines.remove(call.line)
        if not lines:
            del staged.traces[trace.trace_id]
        if reservation is not None:
            staged.reservations.remove(reservation)
        if earmark is not None:
            staged.earmarks.remove(earmark)

    def _close_group(self) -> None:
        """What is staged so far is a commit of its own. Only between two acts of a call, as everywhere else."""
        if self._staged:
            self._full.append(Group(self._staged, *self.book.take_pending()))
            self._staged = Staged()

    async def _commit_full(self) -> None:
        """Commit the groups that are full, oldest first, and tell of each."""
        while self._full:
            group = self._full.popleft()
            is_last = not (self._full or self._staged)
            tell_all(*await self._commit(group, is_last=is_last))

    async def _commit_staged(self) -> tuple[list[Callable[[], None]], asyncio.CancelledError | None]:
        """Who is to be told now, and the cancellation that came meanwhile. On an error all is staged as it was."""
        staged, self._staged = self._staged, Staged()
        return await self._commit(Group(staged, *self.book.take_pending()), is_last=True)

    async def _commit(
        self, group: Group, *, is_last: bool
    ) -> tuple[list[Callable[[], None]], asyncio.CancelledError | None]:
        staged, payloads = group.staged, group.payloads
        traces, attempts_tree = staged.ordered(), self.fold.attempts_tree
        self._grow_attempts_tree(traces)
        if is_last:  # otherwise the fold is ahead of these lines
            self._add_run_checkpoint(staged)
        unit = self._unit(staged, traces, payloads, group.shared)
        reach("before_commit")
        try:
            done = await self._committer.commit(unit, self.lease, self._owner)
        except (StoreError, KeyTaken, FundsTaken):
            self.fold.attempts_tree = attempts_tree
            self._put_back(group)
            raise
        reach("after_commit")
        self.lease = done.lease
        self.fold.commits = unit.n
        self.fold.head = unit.digest.hex()
        self.fold.seal = staged.sealed
        if staged.run_checkpoint is not None:
            self._checkpointed = self.fold.done
        self.book.committed(done.lease.run_no, unit.n, payloads)
        return staged.after, done.interrupted

    def _put_back(self, group: Group) -> None:
        """Nothing was written: it stays staged, before all else, so that a store which works again gets all of it."""
        if self._full or len(group.payloads) + len(self.book.pending) >= LARGE_COMMIT:
            group.staged.forget_run_checkpoint()
            self._full.appendleft(group)
            return
        self._staged = group.staged.absorb(self._staged)
        self.book.give_back(group.payloads, group.shared)

    def _grow_attempts_tree(self, traces: list[TraceLines]) -> None:
        """Its leaves stand in the order of the lines, which calls side by side do not keep. The tree before stays."""
        before = self.fold.attempts_tree
        grown = self.fold.attempts_tree = MerkleTree(before.size, before.frontier.copy())
        for trace in traces:
            for leaf in trace.attempts:
                grown.append(leaf)

    def _unit(
        self, staged: Staged, traces: list[TraceLines], payloads: list[NewPayload], shared: list[tuple[str, int]]
    ) -> Unit:
        return Unit(
            run_id=self.fold.run_id,
            n=self.fold.commits + 1,
            body=lambda last_store_seal: self._body(staged, traces, last_store_seal),
            payloads=payloads,
            traces=staged.new_traces,
            reservations=staged.reservations,
            completions=staged.completions,
            earmarks=staged.earmarks,
            ended=staged.ended,
            new_run=staged.new_run,
            status=staged.status,
            shared=shared,
            spent=staged.spent,
            frontier=staged.frontier,
        )

    def _body(
        self, staged: Staged, traces: list[TraceLines], last_store_seal: Callable[[], str]
    ) -> tuple[bytes, str | None]:
        head = chain.commit_line(self.fold.commits + 1, self.fold.head, self.fold.run_id)
        body = b"".join([head, *staged.lines(traces)])
        if staged.run_checkpoint is not None:
            checkpoint = replace(staged.run_checkpoint, run_head=chain.sha(body))
            body += chain.run_checkpoint_line(chain.with_digest(checkpoint))
        seal_digest = None
        if staged.seal is not None:
            seal = chain.sealed(
                replace(
                    staged.seal,
                    commits=self.fold.commits + 1,
                    attempts_root=self.fold.attempts_tree.root(),
                    prev_store_seal=last_store_seal(),
                    run_head=chain.sha(body),
                )
            )
            body += chain.seal_line(seal)
            seal_digest = str(seal.seal_digest)
            staged.sealed = seal
        return body, seal_digest

    def _add_run_checkpoint(self, staged: Staged) -> None:
        """Every 256 steps, so that recovery reads from there. Not with the seal: then there is nothing to recover."""
        if self.fold.done // CHECKPOINT_STEPS == self._checkpointed // CHECKPOINT_STEPS or staged.seal is not None:
            return
        kept = b""
        if self.kept_beside is not None:
            self.fold.duplicates, kept = self.kept_beside()
        staged.run_checkpoint = RunCheckpoint(
            commits=self.fold.commits + 1,
            duplicates=self.fold.duplicates,
            open=list(self.fold.open),
            reserved_exact=str(self.reserved_exact()),
            root=self.fold.terminal_root(),
            run_head="",
            run_id=self.fold.run_id,
            spent_exact=str(self.fold.spent_exact),
            ts=self.door.timestamp(),
        )
        staged.frontier = frontier.pack(self.fold, kept)


def tell_all(after: list[Callable[[], None]], interrupted: asyncio.CancelledError | None) -> None:
    for tell in after:
        tell()
    if interrupted is not None:
        raise interrupted
