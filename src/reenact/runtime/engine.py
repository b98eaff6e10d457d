"""The engine: what all runs of a process share, and how one of them is held while somebody works on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Protocol

from reenact.contracts.plan import Plan
from reenact.contracts.records import RunMode, RunStatus
from reenact.contracts.references import secret_names
from reenact.errors import ConcurrentExecution, UsageError
from reenact.journal.run_fold import RunFold
from reenact.record.result import RunResult
from reenact.runtime.call.capability import Mint
from reenact.runtime.call.doubt import keep_late
from reenact.runtime.effects.live import LiveSource
from reenact.runtime.effects.secrets import Secrets
from reenact.runtime.effects.source import EffectSource
from reenact.runtime.gates.supervisor import LONGEST_ANSWER_S, SupervisorFunction
from reenact.runtime.listeners import Fact, Listener, tell_all
from reenact.runtime.plans.steps import RunPlan
from reenact.runtime.plans.tool_registries import load_registries
from reenact.runtime.run import Run
from reenact.runtime.writing.committer import Committer
from reenact.runtime.writing.heartbeat import Heartbeat
from reenact.runtime.writing.redaction import Redactor
from reenact.skills.registry import Registry, default_registry, register_all
from reenact.skills.services import KV_SERVICE
from reenact.skills.skill import Skill
from reenact.store.base import Store
from reenact.store.open import open_store
from reenact.store.owner import owner_name
from reenact.values.clock import Door, SystemDoor


class Mode(Protocol):
    """How a run of one mode goes on: where its effects come from, and who drives it to its end."""

    def bind(
        self, engine: Engine, fold: RunFold, plan: Plan, document: dict[str, object]
    ) -> tuple[RunPlan, EffectSource]:
        """The plan of a run that was interrupted, with the skills that are there, and its source of effects."""

    async def go_on(self, engine: Engine, run: Run) -> RunResult:
        """From wherever the run stands to its end, or to where it has to stop."""


class Engine:
    """Store, skills, secrets, clock, keys and listeners, as `reenact.Runtime` was given them."""

    modes: ClassVar[Mapping[RunMode, Mode]] = {}
    """How runs of each mode go on, registered by whoever knows: see `reenact.Runtime`."""

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
        self.supervisor = supervisor
        self.supervisor_timeout_s = supervisor_timeout_s
        self.listeners = tuple(listeners)
        self.unrecorded_reads = unrecorded_reads
        self.tool_registries = registries
        self.owner = owner_name(self.door.random_bytes(8).hex())
        self.mint = Mint(self.store.signing_key, self.store.store_id)
        self.heartbeat = Heartbeat(self.store)
        self.committer = Committer(self.store)

    def mode(self, fold: RunFold) -> Mode:
        """How this run goes on; a replay needs to know its original."""
        mode: RunMode = "live" if fold.record is None else fold.record.mode
        if mode not in self.modes:
            raise UsageError(f"run {fold.run_id} is a {mode}: go on with it through reenact.replay")
        return self.modes[mode]

    def held(self, run: Run) -> Hold:
        """The run is kept by heartbeats while the block goes on, and given back at its end."""
        return Hold(self, run)

    def live_source(self, plan: RunPlan) -> LiveSource:
        """Effects from the world, with what this engine lends to skills."""
        redactor = self.redactor(plan)
        services = {KV_SERVICE: self.store.key_values(plan.plan.agent_id, redactor.redact, redactor.opened)}
        return LiveSource(self.door, self.secrets, services=services, on_progress=self._progress)

    def redactor(self, plan: RunPlan) -> Redactor:
        """What takes secrets out of values before they are written; it knows those that the plan names."""
        self.secrets.learn(secret_names([step.parameters for step in plan.plan.steps]))
        return Redactor(self.secrets, tuple(plan.plan.context.secret_fields))

    def _progress(self, run_id: str, step_id: str, message: str) -> None:
        """What a skill says on its way. It hears nothing of a listener that fails, and nothing of a closed pipe."""
        if self.listeners:
            shown = Redactor(self.secrets).redact_text(message)
            fact = Fact(kind="progress", run_id=run_id, step_id=step_id, message=shown)
            with suppress(BrokenPipeError):
                tell_all(self.listeners, fact)

    def close(self) -> None:
        self.committer.close()
        self.store.close()


class Hold:
    """One run in this executor's hands: `async with engine.held(run) as hold`.

    The block says how it leaves the run: `status`, and `reason` where it stops without an end.
    """

    def __init__(self, engine: Engine, run: Run) -> None:
        self._engine = engine
        self.run = run
        self.status: RunStatus | None = None
        self.reason: str | None = None

    async def __aenter__(self) -> Hold:
        engine, run = self._engine, self.run
        engine.heartbeat.keep(run.run_id, lambda: run.journal.lease)
        engine.committer.driven.add(run.run_id)
        return self

    def leave(self, status: RunStatus | None, reason: str | None = None) -> None:
        self.status, self.reason = status, reason

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        engine, run = self._engine, self.run
        try:
            if isinstance(error, ConcurrentExecution):
                keep_late(run)  # for whoever holds the lease now
        finally:
            engine.committer.driven.discard(run.run_id)
            engine.heartbeat.drop(run.run_id)
            if run.journal.lease is not None:
                await engine.committer.release(run.journal.lease, self.status)
        if self.reason is not None and self.status in ("waiting", "held"):
            run.listeners.tell_now(Fact(kind="run_parked", run_id=run.run_id, status=self.status, message=self.reason))


def chosen_store(store: Store | str | Path | None, door: Door) -> Store:
    if store is None or isinstance(store, str | Path):
        return open_store(store, door=door)
    return store
