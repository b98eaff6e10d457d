"""Opening, resuming and leaving a session: `async with runtime.session(…) as s`, or plain `with`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Event, RunRecord, RunStatus
from reenact.contracts.references import secret_names
from reenact.errors import EvidenceError, UsageError, WaitingForPerson
from reenact.journal.run_fold import RunFold
from reenact.record.payloads import StoredPayloads
from reenact.runtime.effects.coroutines import GRACE_S, OUR_LOOPS, leave_none_behind
from reenact.runtime.plans.plan_secrets import refuse_secrets_in_session
from reenact.runtime.plans.tool_registries import check_registries, with_host_registries
from reenact.runtime.recovery import refuse_ended
from reenact.runtime.run import Execution, Fact, Parked
from reenact.runtime.session import history as session_history
from reenact.runtime.session.plan import Document, SessionPlan, opening
from reenact.runtime.session.session import Session, as_waiting
from reenact.runtime.writing.checkpoint_state import Past, encoded, fresh_gate, read_past
from reenact.runtime.writing.payloads import PayloadBook
from reenact.runtime.writing.redaction import Redactor
from reenact.runtime.writing.writer import RunWriter
from reenact.store.base import NewRun
from reenact.values.canonical import canonicalize
from reenact.values.ids import project_uuid7
from reenact.version import __version__

if TYPE_CHECKING:
    from reenact.runtime.runtime import Runtime

T = TypeVar("T")
NOBODY: Final = "agent"
"""The agent of a session that names none."""


class SessionOpening:
    """What `runtime.session(…)` gives: enter it with `async with` or with `with`."""

    def __init__(
        self,
        runtime: Runtime,
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
        self._runtime = runtime
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
        self._ex: Execution | None = None
        self._thread: LoopThread | None = None

    # -- async -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Session:
        ex, plan = self._reopened() if self._resume else self._opened()
        ex.duplicate_output = self._duplicate_output
        if self._unrecorded_reads is not None:
            ex.unrecorded_reads = self._unrecorded_reads
        assert ex.duplicates is not None
        ex.duplicates.with_output = self._duplicate_output
        self._runtime.heartbeat.keep(ex.run_id, lambda: ex.writer.lease)
        self._runtime.committer.active += 1
        self._ex, self._session = ex, Session(self._runtime, ex, plan)
        try:
            await ex.writer.flush()
            if self._resume:
                await self._repair(ex, plan, self._session)
        except Parked as parked:
            self._leave(parked.status, str(parked))
            raise as_waiting(parked, ex.run_id) from None
        except WaitingForPerson as waiting:
            self._leave(self._stopped_as(waiting), str(waiting))
            raise
        except BaseException:
            self._leave(None)
            raise
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A block that ends well seals the run. One that raises leaves it open, to be resumed."""
        assert self._session is not None
        status: RunStatus | None = None
        why: str | None = None
        try:
            await self._until_quiet(self._session, error)
            if isinstance(error, WaitingForPerson):
                status, why = self._stopped_as(error), str(error)
            elif error is None:
                await self._session.settle_voted()
                if asked := self._session.waiting:
                    status, why = "waiting", f"a person is to approve or deny {', '.join(asked)}"
                else:
                    status = await self._session.close()
        except WaitingForPerson as waiting:
            status, why = self._stopped_as(waiting), str(waiting)
            raise
        except Parked as parked:  # settle() has said it, and the host went on: the run stands still like one that waits
            status, why = parked.status, str(parked)
        finally:
            self._leave(status, why)

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

    def _leave(self, status: RunStatus | None, why: str | None = None) -> None:
        assert self._ex is not None
        if self._session is not None:
            self._session.leave()
        self._runtime.committer.active -= 1
        self._runtime.heartbeat.drop(self._ex.run_id)
        if self._ex.writer.lease is not None:
            self._runtime.store.release(self._ex.writer.lease, status)
        if status in ("waiting", "held"):
            self._ex.tell_now(Fact(kind="run_parked", run_id=self._ex.run_id, status=status, message=why))

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

    def _opened(self) -> tuple[Execution, SessionPlan]:
        runtime = self._runtime
        run_id = runtime.door.uuid7()
        refuse_secrets_in_session(self._agent_id, self._context, runtime.secrets)
        goal = Redactor(runtime.secrets).redact_text(self._goal)
        context = with_host_registries(self._context, runtime.tool_registries)
        document = opening(run_id, goal=goal, agent_id=self._agent_id, context=context, door=runtime.door)
        plan = SessionPlan(document, runtime.registry.freeze())
        check_registries(plan.plan.context.tool_registries, source="session")
        dedupe_key = runtime.door.random_bytes(32)
        fold = RunFold(run_id)
        book = PayloadBook(runtime.store, run_id, runtime.door, dedupe_key, runtime.redactor(plan))
        writer = RunWriter(runtime.committer, fold, book, runtime.door, lease=None, owner=runtime.owner)
        started_at = runtime.door.timestamp()
        record = RunRecord(
            agent_id=project_uuid7(self._agent_id),
            capability_key=runtime.mint.kid,
            kind="session",
            mode="live",
            parent_run=None,
            plan=None,
            plan_hash=None,
            plan_id=run_id,
            reenact_version=__version__,
            run_id=run_id,
            started_at=started_at,
            steps_planned=None,
        )
        new_run = NewRun(
            kind="session", mode="live", parent_run=None, plan_id=run_id, agent_id=self._agent_id,
            started_at=started_at, dedupe_key=dedupe_key,
        )  # fmt: skip
        writer.run(record, new_run)
        data = book.put_as_it_is(document)[0]
        writer.event(Event(data=data, reason=None, trace_id=None, ts=started_at, type="turn", who=None))
        ex = runtime.execution(plan, writer, runtime.live_source(plan), run_id)
        ex.duplicates = fresh_gate(ex)
        keep_beside(ex, plan)
        ex.tell(Fact(kind="run_started", run_id=run_id))
        return ex, plan

    def _reopened(self) -> tuple[Execution, SessionPlan]:
        assert self._resume is not None
        runtime = self._runtime
        row = runtime.store.find_run(self._resume)
        if row.kind != "session":
            raise UsageError(f"run {row.run_id} is a plan; `reenact resume {row.run_id}` goes on with it")
        if row.status in ("completed", "failed", "cancelled"):
            raise UsageError(f"session {row.run_id} has ended ({row.status})")
        self._refuse_another(row.run_id)
        return reopen_session(self._runtime, row.run_id)

    def _refuse_another(self, run_id: str) -> None:
        """A session goes on with what it began with: what is said otherwise would not hold, so it is refused."""
        if not self._goal and self._agent_id == NOBODY and not self._context:
            return
        began = session_document(self._runtime, run_id)
        context = began.get("context")
        assert isinstance(context, dict)
        asked: Document = {f"context.{name}": value for name, value in self._context.items()}
        had: Document = {f"context.{name}": context.get(name) for name in self._context}
        own, kept = self._context.get("tool_registries"), context.get("tool_registries")
        if isinstance(own, list) and isinstance(kept, list):  # the runtime's stand behind those that were said
            added = [each for each in self._runtime.tool_registries if each not in own]
            had["context.tool_registries"] = [each for each in kept if each not in added]
        if self._goal:
            asked["goal"], had["goal"] = Redactor(self._runtime.secrets).redact_text(self._goal), began.get("goal")
        if self._agent_id != NOBODY:
            asked["agent_id"], had["agent_id"] = self._agent_id, began.get("agent_id")
        for name, value in asked.items():
            if canonicalize(value) != canonicalize(had[name]):
                raise UsageError(
                    f"session {run_id} began with another {name}, and goes on with that; leave it out, "
                    "or begin a new session"
                )

    async def _repair(self, ex: Execution, plan: SessionPlan, session: Session) -> None:
        """What an earlier process left open is ended, so that the history is whole."""
        if self._interrupted == "settle":
            await session.settle()
            return
        await session.settle_voted()
        for trace in list(ex.fold.open.values()):
            await session_history.synthesize(ex, plan, trace)


def reopen_session(runtime: Runtime, run_id: str) -> tuple[Execution, SessionPlan]:
    """A session's state with its lease taken; its opening was kept with its first turn."""
    lease = runtime.store.acquire(run_id, runtime.owner)
    try:
        document = session_document(runtime, run_id)
        plan = SessionPlan(document, runtime.registry.freeze())
        past = read_past(runtime.store, run_id)
        fold = past.recovered.fold
        refuse_ended(fold)
        pin_again(plan, past)
        runtime.secrets.learn(plan.secret_names)
    except BaseException:
        runtime.store.release(lease)
        raise
    book = PayloadBook(runtime.store, run_id, runtime.door, runtime.store.dedupe_key(run_id), runtime.redactor(plan))
    writer = RunWriter(runtime.committer, fold, book, runtime.door, lease=lease, owner=runtime.owner)
    ex = runtime.execution(plan, writer, runtime.live_source(plan), run_id)
    ex.duplicates = session_history.remembered_gate(ex, plan, fold.turn, past)
    keep_beside(ex, plan)
    ex.tell_now(Fact(kind="recovered", run_id=run_id, message=str(past.recovered)))
    return ex, plan


def pin_again(plan: SessionPlan, past: Past) -> None:
    """What the session had pinned, and the names of its secrets: as they were kept, and as its calls since then say."""
    if past.kept is not None:
        plan.pins = past.kept.pins or plan.pins
        plan.secret_names.update(past.kept.secrets)
    for step in past.steps:
        skill = plan.find(str(step.trace.meta("skill_id")), str(step.trace.meta("skill_version")))
        parameters = step.parameters()
        plan.pin(skill, parameters if isinstance(parameters, dict) else {})
        plan.secret_names.update(secret_names(parameters))


def keep_beside(ex: Execution, plan: SessionPlan) -> None:
    """With each run checkpoint, what whoever goes on from there needs to know."""

    def kept() -> tuple[str, bytes]:
        assert ex.duplicates is not None
        state = encoded(ex.duplicates, pins=plan.pins, secrets=frozenset(plan.secret_names))
        return ex.duplicates.digest(), state

    ex.writer.kept_beside = kept


def session_document(runtime: Runtime, run_id: str) -> Document:
    first = runtime.store.body(run_id, 1)
    if first is None:
        raise EvidenceError(f"session {run_id} has no commits")
    head = RunFold(run_id)
    head.apply_body(first)
    data = next((event.data for event in head.events if event.type == "turn"), None)
    if data is None:
        raise EvidenceError(f"session {run_id} was not begun by this runtime; only whoever began it goes on with it")
    try:
        document = StoredPayloads(runtime.store, run_id).get(data, near=1)
    except LookupError:
        raise EvidenceError(f"what session {run_id} began with was erased; it cannot be resumed") from None
    assert isinstance(document, dict)
    return document


class LoopThread:
    """A loop of its own for a synchronous session."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        OUR_LOOPS.add(self._loop)  # signals come to the main thread
        self._ends = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="reenact-session")
        self._thread.start()

    def _run(self) -> None:
        """A skill that stops the loop does not stop the session."""
        while not self._ends:
            self._loop.run_forever()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives. Ctrl-C cancels it, and comes through once it has ended."""
        if self._ends:
            work.close()
            raise UsageError("the block of this session has ended; open another one, or this one again with resume=…")
        ended = threading.Event()

        async def whole() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(whole(), self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            ended.wait(GRACE_S)
            raise

    def stop(self) -> None:
        self.do(leave_none_behind())
        self._ends = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncSession:
    """The same session for code that is not async. Threads may call it in parallel."""

    def __init__(self, session: Session, thread: LoopThread) -> None:
        self._session = session
        self._thread = thread

    @property
    def run_id(self) -> str:
        return self._session.run_id

    @property
    def spent_exact(self) -> int:
        """Picodollars charged so far."""
        return self._session.spent_exact

    @property
    def waiting(self) -> list[str]:
        """Ids of the calls that wait for a person."""
        return self._session.waiting

    def call(
        self,
        skill_id: str,
        parameters: Mapping[str, object] | None = None,
        *,
        version: str | None = None,
        step_id: str | None = None,
        idempotency_key: str | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> StructuredOutcome:
        return self._thread.do(
            self._session.call(
                skill_id, parameters, version=version, step_id=step_id, idempotency_key=idempotency_key, secrets=secrets
            )
        )

    def turn(self) -> int:
        return self._thread.do(self._session.turn())

    def verify(self, commands: Sequence[str], *, timeout_s: float = 600) -> list[int]:
        return self._thread.do(self._session.verify(commands, timeout_s=timeout_s))

    def finish(self, *, confidence: float | None = None) -> None:
        self._session.finish(confidence=confidence)

    def history(self, *, style: str = "openai") -> list[Document]:
        return self._thread.do(self._session.history(style=style))

    def settle(self) -> list[StructuredOutcome]:
        return self._thread.do(self._session.settle())
