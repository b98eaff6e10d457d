"""Opening, resuming and leaving a session: `async with runtime.session(…) as s`, or plain `with`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Final

from reenact.contracts.records import ENDED, Event, RunStatus
from reenact.errors import UsageError, WaitingForPerson
from reenact.runtime.engine import Engine
from reenact.runtime.hold import Hold
from reenact.runtime.lending import live_source
from reenact.runtime.opening import begin
from reenact.runtime.parked import Parked
from reenact.runtime.plans.plan_secrets import refuse_secrets_in_session
from reenact.runtime.plans.tool_registries import check_registries, with_host_registries
from reenact.runtime.run import Run
from reenact.runtime.session import history
from reenact.runtime.session.plan import Document, SessionPlan, opening
from reenact.runtime.session.reopening import keep_beside, reopen_session, session_document
from reenact.runtime.session.session import Session
from reenact.runtime.session.settling import as_waiting
from reenact.runtime.session.sync import LoopThread, SyncSession
from reenact.runtime.writing.checkpoint_state import fresh_gate
from reenact.runtime.writing.redaction import Redactor
from reenact.values.canonical import canonicalize

NOBODY: Final = "agent"
"""The agent of a session that names none."""


class SessionOpening:
    """What `runtime.session(…)` gives: enter it with `async with` or with `with`."""

    def __init__(
        self,
        engine: Engine,
        *,
        goal: str = "",
        agent_id: str = NOBODY,
        budget_cents: int | None = None,
        context: Mapping[str, object] | None = None,
        resume: str | None = None,
        interrupted: str = "synthesize",
        duplicate_output: bool = False,
        unrecorded_reads: bool | None = None,
    ) -> None:
        if interrupted not in ("synthesize", "settle"):
            raise UsageError(f"interrupted={interrupted!r} is neither synthesize nor settle")
        if budget_cents is not None and context is not None and context.get("budget_cents") not in (None, budget_cents):
            raise UsageError("budget_cents is said twice, and differently in the context; say it once")
        self._engine = engine
        self._goal = goal
        self._agent_id = agent_id
        self._context: Document = dict(context or {})
        if budget_cents is not None:
            self._context["budget_cents"] = budget_cents
        self._resume = resume
        self._interrupted = interrupted
        self._duplicate_output = duplicate_output
        self._unrecorded_reads = unrecorded_reads
        self._session: Session | None = None
        self._hold: Hold | None = None
        self._thread: LoopThread | None = None

    # -- async -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Session:
        run = self._reopened(self._resume) if self._resume else self._opened()
        run.gates.duplicate_output = self._duplicate_output
        if self._unrecorded_reads is not None:
            run.unrecorded.reads_go_on = self._unrecorded_reads
        assert run.gates.duplicates is not None
        run.gates.duplicates.with_output = self._duplicate_output
        self._session = session = Session(self._engine, run)
        self._hold = await self._engine.held(run).__aenter__()
        try:
            await run.journal.flush()
            if self._resume:
                await self._repair(run, session)
        except Parked as parked:
            self._hold.leave(parked.status, str(parked))
            await self._leave()
            raise as_waiting(parked, run.run_id) from None
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
        assert self._hold is not None
        hold = self._hold
        try:
            await self._until_quiet(self._session, error)
            if isinstance(error, WaitingForPerson):
                hold.leave(self._stopped_as(error), str(error))
            elif error is None:
                await self._session.settle_voted()
                if asked := self._session.waiting:
                    hold.leave("waiting", f"a person is to approve or deny {', '.join(asked)}")
                else:
                    hold.leave(await self._session.close())
        except WaitingForPerson as waiting:
            hold.leave(self._stopped_as(waiting), str(waiting))
            raise
        except Parked as parked:  # settle() has said it, and the host went on: the run stands still like one that waits
            hold.leave(parked.status, str(parked))
        finally:
            await self._leave()

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

    def _stopped_as(self, error: WaitingForPerson) -> RunStatus:
        """What was answered meanwhile no longer waits: somebody may go on with it."""
        if error.status != "waiting":
            return "held"
        return "waiting" if self._session is not None and self._session.waiting else "pending"

    async def _leave(self, error: BaseException | None = None) -> None:
        assert self._hold is not None
        if self._session is not None:
            self._session.leave()
        await self._hold.__aexit__(None if error is None else type(error), error, None)

    # -- sync ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> SyncSession:
        self._thread = LoopThread()
        try:
            return SyncSession(self._thread.do(self.__aenter__()), self._thread)
        except BaseException:
            self._thread.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        try:
            self._thread.do(self.__aexit__(kind, error, trace))
        finally:
            self._thread.stop()

    # -- beginnings ------------------------------------------------------------------------------------------------

    def _opened(self) -> Run:
        engine = self._engine
        run_id = engine.clock.uuid7()
        refuse_secrets_in_session(self._agent_id, self._context, engine.secrets)
        goal = Redactor(engine.secrets).redact_text(self._goal)
        context = with_host_registries(self._context, engine.tool_registries)
        document = opening(run_id, goal=goal, agent_id=self._agent_id, context=context, clock=engine.clock)
        plan = SessionPlan(document, engine.registry.freeze())
        check_registries(plan.plan.context.tool_registries, source="session")
        run = begin(engine, plan, live_source(engine, plan), kind="session", run_id=run_id)
        record = run.journal.fold.record
        assert record is not None
        data = run.journal.book.put_as_it_is(document)[0]
        run.journal.event(Event(data=data, reason=None, trace_id=None, ts=record.started_at, type="turn", who=None))
        run.gates.duplicates = fresh_gate(run)
        keep_beside(run)
        return run

    def _reopened(self, resume: str) -> Run:
        row = self._engine.store.find_run(resume)
        if row.kind != "session":
            raise UsageError(f"run {row.run_id} is a plan; `reenact resume {row.run_id}` goes on with it")
        if row.status in ENDED:
            raise UsageError(f"session {row.run_id} has ended ({row.status})")
        self._refuse_another(row.run_id)
        return reopen_session(self._engine, row.run_id)

    def _refuse_another(self, run_id: str) -> None:
        """A session goes on with what it began with: what is said otherwise would not hold, so it is refused."""
        if not self._goal and self._agent_id == NOBODY and not self._context:
            return
        began = session_document(self._engine, run_id)
        context = began.get("context")
        assert isinstance(context, dict)
        asked: Document = {f"context.{name}": value for name, value in self._context.items()}
        had: Document = {f"context.{name}": context.get(name) for name in self._context}
        own, kept = self._context.get("tool_registries"), context.get("tool_registries")
        if isinstance(own, list) and isinstance(kept, list):  # the runtime's stand behind those that were said
            added = [each for each in self._engine.tool_registries if each not in own]
            had["context.tool_registries"] = [each for each in kept if each not in added]
        if self._goal:
            asked["goal"], had["goal"] = Redactor(self._engine.secrets).redact_text(self._goal), began.get("goal")
        if self._agent_id != NOBODY:
            asked["agent_id"], had["agent_id"] = self._agent_id, began.get("agent_id")
        for name, value in asked.items():
            if canonicalize(value) != canonicalize(had[name]):
                raise UsageError(
                    f"session {run_id} began with another {name}, and goes on with that; leave it out, "
                    "or begin a new session"
                )

    async def _repair(self, run: Run, session: Session) -> None:
        """What an earlier process left open is ended, so that the history is whole."""
        if self._interrupted == "settle":
            await session.settle()
            return
        await session.settle_voted()
        for trace in list(run.journal.fold.open.values()):
            await history.synthesize(run, trace)
