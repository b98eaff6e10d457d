"""The runtime: runs plans, goes on with what was interrupted. Async inside, a thin synchronous front."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from reenact.contracts.plan import Plan, parse_plan, plan_from_document, plan_hash
from reenact.contracts.records import RunMode, RunRecord, RunStatus
from reenact.contracts.references import secret_names
from reenact.errors import (
    ConcurrentExecution,
    LockAcquireFailed,
    PlanError,
    ReenactError,
    RunEnded,
    SecretError,
    StoreError,
    UsageError,
    WaitingForPerson,
)
from reenact.journal.fold import TraceFold
from reenact.journal.run_fold import RunFold
from reenact.record.reader import RunReader
from reenact.record.result import RunResult
from reenact.runtime.call.capability import Mint
from reenact.runtime.call.doubt import keep_late
from reenact.runtime.effects.coroutines import run_to_its_end
from reenact.runtime.effects.live import LiveSource
from reenact.runtime.effects.secrets import Secrets
from reenact.runtime.effects.source import EffectSource
from reenact.runtime.gates.supervisor import LONGEST_ANSWER_S, SupervisorFunction, load_supervisor
from reenact.runtime.plans.pinning import pin
from reenact.runtime.plans.plan_run import leave_parked, run_plan
from reenact.runtime.plans.plan_secrets import refuse_secrets
from reenact.runtime.plans.steps import PlannedStep, RunPlan
from reenact.runtime.plans.tool_registries import check_registries, load_registries, with_registries
from reenact.runtime.recovery import load_fold, refuse_ended, refuse_unsealed
from reenact.runtime.run import Execution, Fact, Listener, Parked, tell_all
from reenact.runtime.session import history as session_history
from reenact.runtime.session.opening import SessionOpening, reopen_session
from reenact.runtime.session.plan import SessionPlan
from reenact.runtime.session.session import Session
from reenact.runtime.writing.committer import Committer
from reenact.runtime.writing.heartbeat import Heartbeat
from reenact.runtime.writing.payloads import PayloadBook
from reenact.runtime.writing.redaction import Redactor
from reenact.runtime.writing.writer import RunWriter
from reenact.skills.drift import refuse_changed_skills
from reenact.skills.registry import Registry, default_registry, register_all
from reenact.skills.services import KV_SERVICE
from reenact.skills.skill import Skill
from reenact.store.base import NewRun, RunRow, Store
from reenact.store.open import open_store
from reenact.store.owner import owner_name
from reenact.values.clock import Door, SystemDoor
from reenact.values.ids import is_uuid7
from reenact.version import __version__

T = TypeVar("T")
UNFINISHED: tuple[RunStatus, ...] = ("pending", "running", "held", "waiting")
LAPSED_S = 0.1
"""After the end of a lease: clocks are not as fine as the records."""
SERVED: tuple[RunMode, ...] = ("mock_replay", "dry_run")

PlanLike = Mapping[str, object] | str | Path


class Runtime:
    """Runs plans on a store.

    `skills` are added to the built-in ones. `secrets` are looked up before the environment. `supervisor` is asked about
    every call, besides what a plan names; each has `supervisor_timeout_s` to answer. `listeners` hear every fact after
    it is durable. `unrecorded_reads` lets reads go on while the journal cannot be written, and they say so; everything
    else fails closed. `tool_registries`, files or documents, become part of every plan and session: tools of servers
    are called as what they stand there for, or not at all.
    """

    def __init__(
        self,
        store: Store | str | Path | None = None,
        *,
        skills: Iterable[Skill] | Registry = (),
        secrets: Mapping[str, str] | None = None,
        supervisor: SupervisorFunction | None = None,
        supervisor_timeout_s: float = LONGEST_ANSWER_S,
        listeners: Iterable[Listener] = (),
        unrecorded_reads: bool = False,
        tool_registries: Iterable[Mapping[str, object] | str | Path] = (),
        door: Door | None = None,
    ) -> None:
        if not supervisor_timeout_s > 0:
            raise UsageError("supervisor_timeout_s is a number of seconds above 0")
        if supervisor is not None and not callable(supervisor):
            raise UsageError(
                f"supervisor is a function, not {supervisor!r}; what a plan names, such as ask, stands in its context: "
                'context={"supervisor": "ask"}'
            )
        registries = load_registries(tool_registries)
        self.door: Door = door or SystemDoor()
        self.store: Store = chosen_store(store, self.door)
        self.registry = skills if isinstance(skills, Registry) else default_registry()
        if not isinstance(skills, Registry):
            register_all(self.registry, skills)
        self.secrets = Secrets(secrets)
        self._supervisor = supervisor
        self._supervisor_timeout_s = supervisor_timeout_s
        self.listeners = tuple(listeners)
        self.unrecorded_reads = unrecorded_reads
        self.tool_registries = registries
        self.owner = owner_name(self.door.random_bytes(8).hex())
        self.mint = Mint(self.store.signing_key, self.store.store_id)
        self.heartbeat = Heartbeat(self.store)
        self.committer = Committer(self.store)

    # -- the synchronous front -------------------------------------------------------------------------------------

    def run(self, plan: PlanLike, *, run_id: str | None = None) -> RunResult:
        """Run a plan to its end, or to where it has to stop."""
        return run_sync(self.run_async(plan, run_id=run_id))

    def resume(self, run_id: str) -> RunResult:
        """Go on with a run that was interrupted; a run that has ended is returned as it is."""
        return run_sync(self.resume_async(run_id))

    def recover(self) -> list[RunResult]:
        """Go on with every run that nobody is working on."""
        return run_sync(self.recover_async())

    def session(
        self,
        *,
        goal: str = "",
        agent_id: str = "agent",
        budget_cents: int | None = None,
        context: Mapping[str, object] | None = None,
        resume: str | None = None,
        interrupted: str = "synthesize",
        duplicate_output: bool = False,
        unrecorded_reads: bool | None = None,
    ) -> SessionOpening:
        """A session for an agent loop: `async with runtime.session(goal=…) as s`, or plain `with`.

        `context` takes what a plan's context takes. `resume` goes on with a session of that id; calls that were
        interrupted are ended by an appended result (`interrupted="settle"` drives them to their end instead).
        `duplicate_output` hands a denied duplicate the earlier output. `unrecorded_reads` overrides the
        runtime's.
        """
        return SessionOpening(
            self,
            goal=goal,
            agent_id=agent_id,
            budget_cents=budget_cents,
            context=context,
            resume=resume,
            interrupted=interrupted,
            duplicate_output=duplicate_output,
            unrecorded_reads=unrecorded_reads,
        )

    # -- the async core --------------------------------------------------------------------------------------------

    async def run_async(self, plan: PlanLike, *, run_id: str | None = None) -> RunResult:
        document = self.pinned(plan)
        bound = RunPlan(plan_from_document(document)[0], document, self.registry.freeze())
        return await self.conduct(self.open_run(document, self.live_source(bound), run_id=run_id, bound=bound))

    async def resume_async(self, run_id: str) -> RunResult:
        row = self.store.find_run(run_id)
        if row.status not in UNFINISHED:
            refuse_unsealed(self.store, row)
            return RunResult(row.run_id, row.status, self.store)
        try:
            if row.kind == "session":
                return await self.settle_session(row.run_id)
            return await self.conduct(self.reopen_run(row.run_id))
        except RunEnded:  # another executor was faster
            return RunResult(row.run_id, self.store.find_run(row.run_id).status, self.store)

    async def settle_session(self, run_id: str) -> RunResult:
        """Drive the open calls of a session to their end. The session itself goes on only with its host."""
        ex, plan = reopen_session(self, run_id)
        status: RunStatus = "pending"
        reason: str | None = f"the session's calls are settled; its host goes on with session(resume={run_id!r})"
        self.heartbeat.keep(run_id, lambda: ex.writer.lease)
        try:
            await Session(self, ex, plan).settle()
        except WaitingForPerson as waiting:
            status, reason = ("waiting" if waiting.status == "waiting" else "held"), str(waiting)
        except ConcurrentExecution:
            keep_late(ex)
            raise
        finally:
            self.heartbeat.drop(run_id)
            if ex.writer.lease is not None:
                self.store.release(ex.writer.lease, status)
        if status != "pending":
            ex.tell_now(Fact(kind="run_parked", run_id=run_id, status=status, message=reason))
        return RunResult(run_id, status, self.store, reason=reason)

    async def recover_async(self) -> list[RunResult]:
        rows = self.store.runs(status=UNFINISHED)
        found, free_in_s = await self._recover(rows)
        if free_in_s:  # a container that was started again cannot see that the one before it is gone
            await self.door.sleep(max(free_in_s.values()) + LAPSED_S)
            again, _ = await self._recover([row for row in rows if row.run_id in free_in_s])
            found |= again
        return list(found.values())

    async def _recover(self, rows: list[RunRow]) -> tuple[dict[str, RunResult], dict[str, float]]:
        """(results, the oldest first; the seconds after which those that nobody can see at work here may be free)."""
        found: dict[str, RunResult] = {}
        free_in_s: dict[str, float] = {}
        for row in reversed(rows):
            try:
                found[row.run_id] = await self.resume_async(row.run_id)
            except StoreError:
                raise
            except ReenactError as error:  # one that is damaged or in other hands does not keep the others from it
                found[row.run_id] = RunResult(row.run_id, row.status, self.store, reason=str(error))
                if isinstance(error, LockAcquireFailed) and error.free_in_s is not None:
                    free_in_s[row.run_id] = error.free_in_s
        return found, free_in_s

    # -- one run ---------------------------------------------------------------------------------------------------

    def pinned(self, plan: PlanLike) -> dict[str, object]:
        """The plan's document with everything pinned; a path is read, a mapping is taken as it is."""
        if isinstance(plan, Mapping):
            return self.pin(dict(plan), source="plan")
        path = Path(plan)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise PlanError(f"{path}: {error.strerror or 'cannot be read'}; name a plan file") from None
        _, document = parse_plan(data, source=str(path))
        return self.pin(document, source=str(path))

    def pin(self, document: dict[str, object], *, source: str) -> dict[str, object]:
        """The plan pinned; PlanError where a secret stands in it, or a skill is not what it was pinned with."""
        plan, _ = plan_from_document(document, source=source)
        check_registries(plan.context.tool_registries, source=source)
        document = with_registries(document, self.tool_registries, source=source)
        if plan.context.pins is not None:
            refuse_changed_skills(plan.context.pins.skills, self.registry, source=source)
        pinned = pin(document, self.registry, self.door, source=source)
        refuse_secrets(pinned, self.registry, self.secrets, source=source)
        return pinned

    def open_run(
        self,
        document: dict[str, object],
        source: EffectSource,
        *,
        run_id: str | None = None,
        mode: RunMode = "live",
        parent_run: str | None = None,
        original_run_id: str | None = None,
        bound: RunPlan | None = None,
    ) -> Execution:
        """A new run, its run record staged with the first commit. `bound` is the plan where it is bound already."""
        run_plan_ = bound or RunPlan(plan_from_document(document)[0], document, self.registry.freeze())
        plan = run_plan_.plan
        if run_id is not None and not is_uuid7(run_id):
            raise UsageError(f"run_id {run_id!r} is not a lowercase UUIDv7; leave it out to get a new one")
        new_id = run_id or self.door.uuid7()
        dedupe_key = self.door.random_bytes(32)
        fold = RunFold(new_id)
        book = PayloadBook(self.store, new_id, self.door, dedupe_key, self.redactor(run_plan_))
        writer = RunWriter(self.committer, fold, book, self.door, lease=None, owner=self.owner)
        started_at = self.door.timestamp()
        record = RunRecord(
            agent_id=run_plan_.agent_id,
            capability_key=self.mint.kid,
            kind="plan",
            mode=mode,
            parent_run=parent_run,
            plan=book.put_as_it_is(document)[0],
            plan_hash=plan_hash(document),
            plan_id=run_plan_.plan_id,
            reenact_version=__version__,
            run_id=new_id,
            started_at=started_at,
            steps_planned=len(plan.steps),
        )
        new_run = NewRun(
            kind="plan", mode=mode, parent_run=parent_run, plan_id=plan.plan_id, agent_id=plan.agent_id,
            started_at=started_at, dedupe_key=dedupe_key,
        )  # fmt: skip
        writer.run(record, new_run)
        ex = self.execution(run_plan_, writer, source, original_run_id or new_id)
        ex.tell(Fact(kind="run_started", run_id=new_id, steps=len(plan.steps)))
        return ex

    def reopen_run(self, run_id: str) -> Execution:
        """A run that was interrupted: its lease taken, its journal verified and folded."""
        if self.store.find_run(run_id).kind == "session":
            return reopen_session(self, run_id)[0]
        lease = self.store.acquire(run_id, self.owner)
        try:
            reader = RunReader(self.store, run_id)
            plan, document = reader.plan()
            recovered = load_fold(self.store, run_id)
            fold = recovered.fold
            refuse_ended(fold)
            bound = self.bind(fold, plan, document)
            source = self.source_for(fold, bound)
        except BaseException:
            self.store.release(lease)
            raise
        book = PayloadBook(self.store, run_id, self.door, self.store.dedupe_key(run_id), self.redactor(bound))
        writer = RunWriter(self.committer, fold, book, self.door, lease=lease, owner=self.owner)
        original = fold.record.parent_run if fold.record is not None and fold.record.mode != "live" else None
        ex = self.execution(bound, writer, source, original or run_id)
        ex.what_was_read = str(recovered)
        return ex

    def bind(self, fold: RunFold, plan: Plan, document: dict[str, object]) -> RunPlan:  # noqa: ARG002  # replays ask it
        """The plan of a run that goes on, with the skills that are there."""
        return RunPlan(plan, document, self.registry.freeze())

    def source_for(self, fold: RunFold, bound: RunPlan) -> EffectSource:
        """Where a run that goes on gets its effects from; a replay that goes on needs to know its original."""
        if fold.record is not None and fold.record.mode != "live":
            raise UsageError(f"run {fold.run_id} is a {fold.record.mode}: go on with it through reenact.replay")
        return self.live_source(bound)

    def step_of(self, ex: Execution, trace: TraceFold) -> PlannedStep:
        """The step behind an open trace, of a plan or a session."""
        if isinstance(ex.plan, SessionPlan):
            return session_history.reopen(ex, ex.plan, trace).step
        return ex.plan.step(trace.step_index)

    def live_source(self, plan: RunPlan) -> LiveSource:
        """Effects from the world, with what this runtime lends to skills."""
        redactor = self.redactor(plan)
        services = {KV_SERVICE: self.store.key_values(plan.plan.agent_id, redactor.redact, redactor.opened)}
        return LiveSource(self.door, self.secrets, services=services, on_progress=self._progress)

    def redactor(self, plan: RunPlan) -> Redactor:
        """What takes secrets out of values before they are written; it knows those that the plan names."""
        self.secrets.learn(secret_names([step.parameters for step in plan.plan.steps]))
        return Redactor(self.secrets, tuple(plan.plan.context.secret_fields))

    def execution(self, plan: RunPlan, writer: RunWriter, source: EffectSource, original_run_id: str) -> Execution:
        return Execution(
            store=self.store,
            door=self.door,
            plan=plan,
            writer=writer,
            source=source,
            mint=self.mint,
            original_run_id=original_run_id,
            named_supervisor=self._named_supervisor(plan, writer),
            host_supervisor=self._supervisor,
            supervisor_limit_s=self._supervisor_timeout_s,
            listeners=self.listeners,
            unrecorded_reads=self.unrecorded_reads,
        )

    def _named_supervisor(self, plan: RunPlan, writer: RunWriter) -> Callable[[], SupervisorFunction | None]:
        """How the function that the plan names is loaded: for a new run at once, so that it is refused without it.

        Where everything is served nobody is asked, and no code is loaded.
        """
        record = writer.fold.record
        if record is not None and record.mode in SERVED:
            return lambda: None
        load = partial(load_supervisor, plan.plan.context.supervisor)
        if writer.lease is not None:
            return load
        found = load()
        return lambda: found

    async def conduct(self, ex: Execution) -> RunResult:
        """Run to the end or to a stop; the lease is given back either way."""
        self.heartbeat.keep(ex.run_id, lambda: ex.writer.lease)
        status: RunStatus | None = None
        reason: str | None = None
        self.committer.active += 1
        try:
            if ex.what_was_read is not None:
                ex.tell_now(Fact(kind="recovered", run_id=ex.run_id, message=ex.what_was_read, steps=len(ex.plan)))
            status = await run_plan(ex)
        except Parked as parked:
            await leave_parked(ex)
            status, reason = parked.status, str(parked)
        except SecretError as error:
            await leave_parked(ex)
            status, reason = "held", str(error)
        except ConcurrentExecution:
            keep_late(ex)
            raise
        finally:
            self.committer.active -= 1
            self.heartbeat.drop(ex.run_id)
            if ex.writer.lease is not None:
                self.store.release(ex.writer.lease, status)
        if reason is not None:
            ex.tell_now(Fact(kind="run_parked", run_id=ex.run_id, status=status, message=reason))
        return RunResult(ex.run_id, status, self.store, reason=reason)

    def _progress(self, run_id: str, step_id: str, message: str) -> None:
        """What a skill says on its way. It hears nothing of a listener that fails, and nothing of a closed pipe."""
        if self.listeners:
            shown = Redactor(self.secrets).redact_text(message)
            fact = Fact(kind="progress", run_id=run_id, step_id=step_id, message=shown)
            with suppress(BrokenPipeError):
                tell_all(self.listeners, fact)

    def close(self) -> None:
        self.store.close()


def chosen_store(store: Store | str | Path | None, door: Door) -> Store:
    if store is None or isinstance(store, str | Path):
        return open_store(store, door=door)
    return store


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """The synchronous front; inside a running loop use the async one."""
    if loop_is_running():
        work.close()
        raise UsageError("a loop is running in this thread: await the method that ends in _async instead")
    return run_to_its_end(work)


def loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
