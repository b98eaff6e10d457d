"""The writer of one run: stages records in the order of their making, commits them together, seals."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from reenact.contracts.artifacts import Artifact, ToolCall
from reenact.contracts.records import Attempt, Event, RunCheckpoint, RunRecord, RunStatus, Seal, Vote
from reenact.errors import FundsTaken, KeyTaken, StoreError
from reenact.journal import chain, frontier
from reenact.journal.fold import TraceFold
from reenact.journal.run_fold import RunFold
from reenact.runtime import crash_points
from reenact.runtime.writing.committer import Committer
from reenact.runtime.writing.payloads import PayloadBook
from reenact.runtime.writing.staging import IN_ORDER, Draft
from reenact.store.base import Appended, Earmark, KeyCompletion, KeyReservation, Lease, NewRun, NewTrace
from reenact.values.clock import Clock
from reenact.values.digest import ZERO_DIGEST

CHECKPOINT_STEPS = 256
LARGE_COMMIT = 512
"""Payloads. A commit holds at most 4,095 of them: calls side by side, and calls while the store cannot be written, may
stage more, which then goes into several commits."""


class StagedMoney(NamedTuple):
    """What no transaction has counted yet, by model, of one agent on one day."""

    spent: Counter[str]
    apart: Counter[str]
    counted: set[str]
    """Traces that have ended, or whose money is counted here, whatever the store says of them by now."""


class RunWriter:
    """Appends to a run under a lease. What is staged is not durable before `flush` returns."""

    def __init__(
        self,
        committer: Committer,
        fold: RunFold,
        book: PayloadBook,
        clock: Clock,
        *,
        lease: Lease | None,
        owner: str,
    ) -> None:
        self._committer = committer
        self.fold = fold
        self.book = book
        self.clock = clock
        self.lease = lease
        self._owner = owner
        self._full: deque[Draft] = deque()
        """Staged before what is in the draft, and committed before it."""
        self._lock = asyncio.Lock()
        self._claiming: dict[str, Earmark] = {}
        """Money that is on its way to the store, by trace."""
        self._checkpointed = fold.done
        self.reserved_exact: Callable[[], int] = lambda: 0
        self.kept_beside: Callable[[], tuple[str, bytes]] | None = None
        """(digest of the duplicates, what recovery needs besides the journal), for a run checkpoint."""
        self.sets_apart = False
        """Money may be set apart for calls, which then goes with their end."""
        self.on_commit: Callable[[], None] | None = None
        """Called after each commit, once listeners have heard of it."""

    # -- staging ---------------------------------------------------------------------------------------------------

    def run(self, record: RunRecord, new_run: NewRun) -> None:
        self.fold.apply_run(record)
        self.book.draft.run.append(chain.run_line(record))
        self.book.draft.new_run = new_run

    def entry(self, artifact: Artifact) -> TraceFold:
        """Stage an artifact as the next entry of its trace."""
        trace, line = self.fold.log(artifact)
        draft, begins = self.book.draft, trace.sequence == 1
        lines = draft.lines_of.get(trace.trace_id) or draft.lines_for(trace.trace_id, trace.step_index, begins=begins)
        lines.lines.append(line)
        if begins:
            draft.traces.append(NewTrace(trace.trace_id, trace.step_index, trace.step_id))
        elif self.sets_apart and trace.terminal:
            draft.ended.append(trace.trace_id)
        return trace

    def attempt(self, attempt: Attempt) -> Attempt:
        trace, line, leaf = self.fold.log_attempt(attempt)
        staged = self.book.draft.lines_for(attempt.trace_id, trace.step_index)
        staged.lines.append(line)
        staged.attempts.append(leaf)
        return attempt

    def event(self, event: Event) -> None:
        self.fold.apply_event(event)
        self.book.draft.events.append((event.ts, chain.event_line(event)))

    def vote(self, vote: Vote) -> None:
        digested = chain.with_digest(vote)
        self.fold.votes[vote.trace_id] = digested
        self.book.draft.votes.append(chain.vote_line(digested))
        self.book.draft.signs.append((digested.schema, str(digested.digest)))

    def checkpoint(self, trace: TraceFold) -> None:
        """A trace that parks leaves a checkpoint of where it stands; one that did so already does not again."""
        if self.fold.parked.get(trace.trace_id) == trace.sequence:
            return
        self.fold.parked[trace.trace_id] = trace.sequence
        state = chain.state_of(trace.trace_id, trace.plan_id, trace.state, trace.sequence, trace.head)
        line = chain.checkpoint_line(chain.checkpoint_of(state, self.clock.timestamp()))
        self.book.draft.checkpoints[trace.step_index] = line

    def complete(self, completion: KeyCompletion) -> None:
        self.book.draft.completions.append(completion)

    def spend(self, day: str, agent: str, model: str, exact: int) -> None:
        self.book.draft.spent.append((day, agent, model, exact))

    def staged_money(self, day: str, agent: str, besides: str) -> StagedMoney:
        """Leaves out what is set apart for the trace `besides`."""
        spent, apart = Counter[str](), Counter[str]()
        waiting = (*self._full, self.book.draft)
        ended = {trace_id for draft in waiting for trace_id in draft.ended}
        for draft in waiting:
            for of_day, of_agent, model, exact in draft.spent:
                spent[model] += exact if (of_day, of_agent) == (day, agent) else 0
        staged = {each.trace_id: each for draft in waiting for each in draft.earmarks} | self._claiming
        for each in staged.values():
            counts = (each.day, each.agent_id) == (day, agent) and each.trace_id not in (besides, *ended)
            apart[each.model] += each.exact if counts else 0
        return StagedMoney(spent, apart, {*ended, *staged})

    def status(self, status: RunStatus) -> None:
        self.book.draft.status = status

    def seal(self, status: RunStatus, plan_hash: str | None, steps_planned: int) -> None:
        """What the commit and the store have to say is put in by them."""
        self.book.draft.seal = Seal(
            attempts_root="",
            commits=0,
            plan_hash=plan_hash,
            prev_store_seal=ZERO_DIGEST,
            root=self.fold.full_root(),
            run_head="",
            run_id=self.fold.run_id,
            sealed_at=self.clock.timestamp(),
            status=status,
            steps_planned=steps_planned,
            traces=self.fold.requested,
        )
        self.book.draft.status = status

    def after_commit(self, tell: Callable[[], None]) -> None:
        """Called once what is staged is durable: listeners never hear of what may yet be lost."""
        self.book.draft.after.append(tell)

    @property
    def has_staged(self) -> bool:
        return bool(self._full) or self.book.draft.has_lines

    @property
    def is_large(self) -> bool:
        """Enough is staged for a commit: refused steps wait for nothing that would flush them."""
        return len(self.book.draft.payloads) >= LARGE_COMMIT

    # -- committing ------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Make everything staged durable. Raises ConcurrentExecution when fenced off.

        It is one transaction, unless more is staged than a commit shall hold; then what the caller staged since it last
        waited for something is in one of them.
        """
        lock, book = self._lock, self.book
        if len(book.draft.payloads) >= LARGE_COMMIT:
            self._close_draft()
        await lock.acquire()  # not as a context: it is entered for every step
        try:
            if self._full:
                await self._commit_full()
            if not (book.draft.lines_of or book.draft.has_lines):
                return
            await self._commit(book.close_draft(), is_last=True)
        finally:
            lock.release()

    async def claim(
        self, call: ToolCall, reservation: KeyReservation | None = None, earmark: Earmark | None = None
    ) -> bool:
        """Make a tool_call, and all that is staged, durable in one transaction with what the call reserves.

        False when another call holds the key by now, FundsTaken when others took the money: then nothing was written,
        and what was staged before still is.
        """
        if earmark is not None:
            self._claiming[call.trace_id] = earmark  # until the store has it, calls side by side count it here
        try:
            return await self._claim(call, reservation, earmark)
        finally:
            self._claiming.pop(call.trace_id, None)

    async def _claim(self, call: ToolCall, reservation: KeyReservation | None, earmark: Earmark | None) -> bool:
        if self.is_large:
            self._close_draft()
        async with self._lock:
            if self._full:
                await self._commit_full()
            trace = self.fold.trace(call.trace_id)
            before = (trace.state, trace.sequence, trace.head, trace.attempts_head)
            self.entry(call)
            draft = self.book.draft
            line = draft.lines_of[call.trace_id].lines[-1]
            draft.reservations += [] if reservation is None else [reservation]
            draft.earmarks += [] if earmark is None else [earmark]
            try:
                await self._commit(self.book.close_draft(), is_last=True)
            except (KeyTaken, FundsTaken) as taken:
                trace.state, trace.sequence, trace.head, trace.attempts_head = before
                self._take_back(trace, line, reservation, earmark)
                if isinstance(taken, FundsTaken):
                    raise
                return False
            except StoreError:
                if earmark is not None:
                    earmark.binding = False  # it is written with what comes next, which it must not refuse
                raise
        return True

    def _take_back(
        self, trace: TraceFold, line: bytes, reservation: KeyReservation | None, earmark: Earmark | None
    ) -> None:
        """The tool_call that was staged last in its trace."""
        trace.call = None
        held_by = (self.book.draft, *self._full)
        draft = next(draft for draft in held_by if (of := draft.lines_of.get(trace.trace_id)) and line in of.lines)
        lines = draft.lines_of[trace.trace_id].lines
        lines.remove(line)
        if not lines:
            del draft.lines_of[trace.trace_id]
        if reservation is not None:
            draft.reservations.remove(reservation)
        if earmark is not None:
            draft.earmarks.remove(earmark)

    def _close_draft(self) -> None:
        """What is staged so far is a commit of its own. Only between two acts of a call, as everywhere else."""
        if self.book.draft.has_lines:
            self._full.append(self.book.close_draft())

    async def _commit_full(self) -> None:
        """Commit the drafts that are full, oldest first."""
        while self._full:
            draft = self._full.popleft()
            is_last = not (self._full or self.book.draft.has_lines)
            await self._commit(draft, is_last=is_last)

    async def _commit(self, draft: Draft, *, is_last: bool) -> None:
        """Make a closed draft durable, then tell of it. On an error all is staged as it was."""
        fold, tree, lease = self.fold, self.fold.attempts_tree, self.lease
        before = (tree.size, tree.frontier.copy())
        try:
            self._write_body(draft, is_last=is_last)
            if crash_points.armed is not None:
                crash_points.reach("before_commit")
            done = await self._committer.commit((draft, lease, self._owner))
        except BaseException:  # SystemExit of a signal's handler too
            # Nothing that is staged is forgotten: calls side by side share a draft, and whoever flushes next must meet
            # the same trouble, and not find that there is nothing to write.
            tree.size, tree.frontier = before
            self._put_back(draft)
            raise
        if crash_points.armed is not None:
            crash_points.reach("after_commit")
        written = done.result
        assert isinstance(written, Appended)
        if self.lease is lease or written.lease.cancel is not None:  # else it was renewed meanwhile
            self.lease = written.lease
        fold.commits, fold.head, fold.seal = draft.n, written.head, written.seal
        if draft.run_checkpoint is not None:
            self._checkpointed = fold.done
        self.book.committed(draft)
        for tell in draft.after:
            tell()
        if self.on_commit is not None:
            self.on_commit()
        if done.interrupted is not None:
            raise done.interrupted

    def _write_body(self, draft: Draft, *, is_last: bool) -> None:
        """The lines of a commit, from what is staged; the tree of attempts grows by what stands in them."""
        fold, traces = self.fold, sorted(draft.lines_of.values(), key=IN_ORDER)
        for trace in traces:  # calls side by side end in another order than their lines stand in
            for leaf in trace.attempts:
                fold.attempts_tree.append(leaf)
        if is_last and fold.done // CHECKPOINT_STEPS != self._checkpointed // CHECKPOINT_STEPS:
            self._add_run_checkpoint(draft)  # not before the last: the fold is ahead of the lines of the others
        draft.write_body(fold.commits + 1, fold.head, traces)
        if draft.seal is not None:
            draft.seal = replace(draft.seal, commits=draft.n, attempts_root=fold.attempts_tree.root())

    def _put_back(self, draft: Draft) -> None:
        """Nothing was written: it stays staged, before all else, so that a store which works again gets all of it."""
        if self._full or len(draft.payloads) + len(self.book.draft.payloads) >= LARGE_COMMIT:
            draft.forget_run_checkpoint()
            self._full.appendleft(draft)
        else:
            self.book.reopen(draft)

    def _add_run_checkpoint(self, draft: Draft) -> None:
        """Every 256 steps, so that recovery reads from there. Not with the seal: then there is nothing to recover."""
        if draft.seal is not None:
            return
        kept = b""
        if self.kept_beside is not None:
            self.fold.duplicates, kept = self.kept_beside()
        draft.run_checkpoint = RunCheckpoint(
            commits=self.fold.commits + 1,
            duplicates=self.fold.duplicates,
            open=list(self.fold.open),
            reserved_exact=str(self.reserved_exact()),
            root=self.fold.terminal_root(),
            run_head="",
            run_id=self.fold.run_id,
            spent_exact=str(self.fold.spent_exact),
            ts=self.clock.timestamp(),
        )
        draft.frontier = frontier.pack(self.fold, kept)
