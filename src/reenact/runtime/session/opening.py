"""Opening, resuming and leaving a session: `async with runtime.session(…) as s`, or plain `with`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NoReturn
from weakref import ReferenceType

from reenact.contracts.records import RunStatus
from reenact.errors import Diverged, UsageError, WaitingForPerson
from reenact.runtime.effects.loop_thread import Leave, Leaving, LoopThread
from reenact.runtime.engine import Engine, checked_scorer
from reenact.runtime.hold import Hold
from reenact.runtime.parked import Parked
from reenact.runtime.people.votes import whoami
from reenact.runtime.plans.accepted import NOTHING_ACCEPTED, Accepted
from reenact.runtime.run import Run, Scorer
from reenact.runtime.session import history
from reenact.runtime.session.answering import forking
from reenact.runtime.session.answering.answers import STAYS_OPEN, Answers, Ended
from reenact.runtime.session.arguments import check_divergence, check_id
from reenact.runtime.session.beginning import NOBODY, Wanted, begin_session, until_free
from reenact.runtime.session.session import Session
from reenact.runtime.session.settling import as_waiting
from reenact.runtime.session.sync import SyncSession
from reenact.values.ids import refuse_nul


def said_once(context: Mapping[str, object], **said: object) -> dict[str, object]:
    """What is said beside a context and belongs into it; UsageError where it says something else."""
    for name, value in said.items():
        if value is not None and context.get(name) not in (None, value):
            raise UsageError(f"{name} is said twice, and differently in the context; say it once")
    return {name: value for name, value in said.items() if value is not None}


class SessionOpening:
    """What `runtime.session(…)` gives: enter it with `async with` or with `with`."""

    def __init__(
        self,
        engine: Engine,
        *,
        id: str | None = None,  # noqa: A002  # as users say it
        goal: str = "",
        agent_id: str = NOBODY,
        budget_cents: int | None = None,
        context: Mapping[str, object] | None = None,
        resume: str | None = None,
        interrupted: str = "synthesize",
        duplicate_output: bool = False,
        unrecorded_reads: bool | None = None,
        issue_number: int | None = None,
        policy_version: str | None = None,
        scorer: Scorer | None = None,
        on_divergence: str = "raise",
        accept: Sequence[str] = (),
        accept_changed: Sequence[str] = (),
        replay: str | Path | None = None,
        execute: Collection[str] = (),
    ) -> None:
        if interrupted not in ("synthesize", "settle"):
            raise UsageError(f"interrupted={interrupted!r} is neither synthesize nor settle")
        own = said_once(
            context or {}, budget_cents=budget_cents, issue_number=issue_number, policy_version=policy_version
        )
        if id is not None:
            check_id(id, resume)
        refuse_nul("agent_id", agent_id)
        check_divergence(on_divergence, accept, has_id=id is not None)
        self._engine = engine
        whole = {**(context or {}), **own}
        self._wanted = Wanted(
            id=id, goal=goal, agent_id=agent_id, context=whole, resume=resume, replay=replay, execute=execute
        )
        self._interrupted = interrupted
        self._forks = on_divergence == "fork"
        self._accept = tuple(accept)
        self._accept_changed = Accepted(accept_changed, whoami(None)) if accept_changed else NOTHING_ACCEPTED
        self._forking = asyncio.Lock()
        self._duplicate_output = duplicate_output
        self._unrecorded_reads = unrecorded_reads
        self._scorer = checked_scorer(scorer)
        self._session: Session | None = None
        self._hold: Hold | None = None
        self._is_left = False
        self._thread: LoopThread | None = None
        self.leash: ReferenceType[Leave] | None = None
        """What the `with` statement holds that entered it."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a session that nobody has entered has no {name!r}: open it with "
            "`with runtime.session(…) as session:`, or `async with`, and use what that gives",
            name=name,
            obj=self,
        )

    # -- async -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Session:
        self._refuse_open()
        await until_free(self._engine, self._wanted)
        run, answers = begin_session(self._engine, self._wanted)
        if isinstance(run, Ended):
            self._session = Session(self._engine, run, answers)
            return self._session
        run.plan.accepted = self._accept_changed
        run.gates.duplicate_output = self._duplicate_output
        if self._unrecorded_reads is not None:
            run.unrecorded.reads_go_on = self._unrecorded_reads
        run.scorer = self._scorer or run.scorer
        assert run.gates.duplicates is not None
        run.gates.duplicates.with_output = self._duplicate_output
        self._session = session = Session(self._engine, run, answers)
        if self._forks and answers is not None:
            session.fork = partial(self._fork, session, answers)
            answers.advice = STAYS_OPEN
        self._hold = await self._engine.held(run).__aenter__()
        try:
            await run.journal.flush()
            run.hold_forbidden()
            record = run.journal.fold.record
            if record is not None and record.parent_run is not None:
                await forking.end_parent_left_open(self._engine, run.run_id)
            if self._wanted.resume:
                await self._repair(run, session)
        except Parked as parked:
            self._hold.leave(parked.status, str(parked))
            await self._leave()
            raise as_waiting(parked, run.store, run.run_id) from None
        except WaitingForPerson as waiting:
            self._hold.leave(self._stopped_as(waiting), str(waiting))
            await self._leave()
            raise
        except BaseException as error:
            await self._leave(error)
            raise
        return session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A block that ends well seals the run. One that raises leaves it open, to be resumed."""
        assert self._session is not None
        if await self._is_left_where_entered(self._session, error):
            await self._end(self._session, error)

    async def _end(self, session: Session, error: BaseException | None) -> None:
        if self._hold is None:  # it had ended before
            if error is None:
                session.refuse_not_asked()
            elif isinstance(error, Exception):
                session.explain_failure(error)
            return
        hold = self._hold
        try:
            await self._until_quiet(session, error)
            if error is None:
                await self._end_of_program(session)
                hold = self._hold
            if isinstance(error, WaitingForPerson):
                hold.leave(self._stopped_as(error), str(error))
            elif error is None:
                await session.settle_voted()
                if asked := session.waiting:
                    hold.leave("waiting", f"a person is to approve or deny {', '.join(asked)}")
                else:
                    hold.leave(await session.close())
        except WaitingForPerson as waiting:
            hold.leave(self._stopped_as(waiting), str(waiting))
            raise
        except Parked as parked:  # settle() has said it, and the host went on: the run stands still like one that waits
            hold.leave(parked.status, str(parked))
        finally:
            await self._leave()

    async def _is_left_where_entered(self, session: Session, error: BaseException | None) -> bool:
        """Its process and its loop end a session. Elsewhere it is not sealed, and a forked child gives back nothing."""
        try:
            session.where.refuse_elsewhere(session.run_id, by_threads=session.by_threads)
        except UsageError:
            if not session.where.is_forked and session.where.is_idle and self._hold is not None and not self._is_left:
                await self._leave()
            if error is None:
                raise
            return False
        return True

    async def _end_of_program(self, session: Session) -> None:
        """Every write of the record was asked for again, or the session goes on, and ends, as another run."""
        try:
            session.refuse_not_asked()
        except Diverged as diverged:
            if session.fork is None:
                raise
            await session.fork(diverged)

    async def _fork(self, session: Session, answers: Answers, diverged: Diverged) -> None:
        """Go on as a new run: what was asked for so far is carried over, and the run before it ends."""
        async with self._forking:
            if answers.is_spent():
                return  # another task has forked meanwhile
            session.no_fork.clear()
            try:
                await self._forked(session, answers, diverged)
            finally:
                session.no_fork.set()

    async def _forked(self, session: Session, answers: Answers, diverged: Diverged) -> None:
        accepted = forking.refuse_unaccepted(answers, self._accept, diverged)
        await session.quiet()
        await session.record_unanswered()
        assert self._hold is not None
        old, hold = self._hold.run, self._hold
        accepted += forking.refuse_open(old, self._accept, diverged)
        run = await forking.continued(self._engine, old, answers, accepted, diverged)
        self._hold = await self._engine.held(run).__aenter__()
        session.go_on_in(run)
        try:
            await forking.end_parent(old, run.run_id, forking.why(diverged, answers))
            hold.leave("cancelled")
        finally:
            await hold.__aexit__(None, None, None)

    async def _until_quiet(self, session: Session, error: BaseException | None) -> None:
        """The lease is not given back while a call is under way: whoever took it would send that call again.

        Where the block was cancelled its calls are too; otherwise they may end.
        """
        if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
            session.cancel_calls()
        try:
            await session.quiet()
        except asyncio.CancelledError:
            session.cancel_calls()
            await session.quiet()
            raise
        if isinstance(error, Exception):
            await session.record_unanswered(error)

    def _stopped_as(self, error: WaitingForPerson) -> RunStatus:
        """What was answered meanwhile no longer waits: somebody may go on with it."""
        if error.status != "waiting":
            return "held"
        return "waiting" if self._session is not None and self._session.waiting else "pending"

    async def _leave(self, error: BaseException | None = None) -> None:
        assert self._hold is not None
        self._is_left = True
        if self._session is not None:
            self._session.leave()
        await self._hold.__aexit__(None if error is None else type(error), error, None)

    def _refuse_open(self) -> None:
        """One opening is one session at a time."""
        if self._hold is not None and not self._is_left:
            raise UsageError("this session is open already; ask runtime.session(…) for another one")
        self._hold, self._is_left = None, False

    # -- sync ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> SyncSession:
        self._refuse_open()
        is_seen = self.leash is not None and self.leash() is not None
        thread = self._thread = LoopThread(self._forsake, self.leash if is_seen else None)
        try:
            thread.start()
            front = SyncSession(thread.do(self._entered_by_threads), thread)
        except BaseException:
            self._end_thread()
            raise
        return front

    async def _entered_by_threads(self) -> Session:
        session = await self.__aenter__()
        session.by_threads = True
        return session

    def _leave_block(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread = self._thread
        assert thread is not None, "it was entered"
        if error is not None and thread.is_forked:
            return  # a child on its way out
        try:
            thread.do(partial(self._left_by_thread, threading.get_ident(), kind, error, trace))
        finally:
            self._end_thread()

    __exit__ = Leaving(_leave_block)

    async def _left_by_thread(
        self,
        thread: int,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._thread is not None:
            self._thread.cancel_of(thread)
        await self.__aexit__(kind, error, trace)

    def _end_thread(self) -> None:
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    async def _forsake(self) -> None:
        """Whatever became of the block, the lease is given back; the run stays open, to be resumed."""
        if self._hold is not None and not self._is_left:
            await self.__aexit__(KeyboardInterrupt, KeyboardInterrupt(), None)

    async def _repair(self, run: Run, session: Session) -> None:
        """What an earlier process left open is ended, so that the history is whole."""
        if self._interrupted == "settle":
            await session.settle()
            return
        await session.settle_voted()
        for trace in list(run.journal.fold.open.values()):
            await history.synthesize(run, trace)
