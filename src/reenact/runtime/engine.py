"""The engine: what all runs of a process share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from reenact.contracts.records import RunMode
from reenact.errors import KeyUnavailable, NotAuthentic, TooManyFiles, UsageError
from reenact.journal.run_fold import RunFold
from reenact.runtime.call.capability import Mint, Mints
from reenact.runtime.drain import Drain
from reenact.runtime.effects.secrets import Secrets
from reenact.runtime.gates.supervisor import LONGEST_ANSWER_S, SupervisorFunction
from reenact.runtime.hold import Hold
from reenact.runtime.host_policy import PolicyLike, find_policy
from reenact.runtime.listeners import Listener, LiveShadow
from reenact.runtime.mode import Mode
from reenact.runtime.plans.tool_registries import load_registries
from reenact.runtime.run import Run, Scorer
from reenact.runtime.writing.committer import Committer
from reenact.skills.registry import Registry, SkillsLike, default_registry, register_all
from reenact.store.base import Store
from reenact.store.heartbeat import Heartbeat
from reenact.store.open import open_store
from reenact.store.owner import owner_name
from reenact.values.clock import Clock, SystemClock

MAX_REDISPATCHES = 3
"""After so many deaths in one call it is held, unless its skill or its host says otherwise."""


class Engine:
    """Store, skills, secrets, clock, keys and listeners, as `reenact.Runtime` was given them."""

    modes: ClassVar[Mapping[RunMode, Mode]] = {}
    """How runs of each mode go on, registered by whoever knows: see `reenact.Runtime`."""

    def __init__(
        self,
        store: Store | str | Path | None = None,
        *,
        skills: SkillsLike = (),
        secrets: Mapping[str, str] | None = None,
        supervisor: SupervisorFunction | None = None,
        supervisor_timeout_s: float = LONGEST_ANSWER_S,
        listeners: Iterable[Listener] = (),
        unrecorded_reads: bool = False,
        tool_registries: Iterable[Mapping[str, object] | str | Path] = (),
        policy: PolicyLike = None,
        max_redispatches: int = MAX_REDISPATCHES,
        scorer: Scorer | None = None,
        replay_log: str | Path | None = None,
        shadow: LiveShadow | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not supervisor_timeout_s > 0:
            raise UsageError("supervisor_timeout_s is a number of seconds above 0")
        if type(max_redispatches) is not int or max_redispatches < 1:
            raise UsageError("max_redispatches is a whole number from 1 on")
        if supervisor is not None and not callable(supervisor):
            raise UsageError(
                f"supervisor is a function, not {supervisor!r}; what a plan names, such as ask, stands in its context: "
                'context={"supervisor": "ask"}'
            )
        registries = load_registries(tool_registries)
        self.policy = find_policy(policy)
        self.clock: Clock = clock or SystemClock()
        self.store: Store = chosen_store(store, self.clock)
        self.registry = skills if isinstance(skills, Registry) else found_skills()
        if not isinstance(skills, Registry):
            register_all(self.registry, skills)
        bound, sessions, plans = Secrets(secrets), self.policy.for_sessions, self.policy.for_plans
        self.secrets = bound.within(sessions.secrets, variables=sessions.environment)
        self.plan_secrets = bound.within(plans.secrets, variables=plans.environment)
        """The same for plans, which may come from anybody."""
        self.services: dict[str, object] = {}
        """What skills find in `ctx.services`, besides the store's key-value pairs."""
        self.supervisor = supervisor
        self.supervisor_timeout_s = supervisor_timeout_s
        self.shadow = shadow
        self.listeners = tuple(listeners) if shadow is None else (*listeners, shadow.attach(self))
        self.on_progress: dict[tuple[str, str], Callable[[str], None]] = {}
        """By run and step: who hears what the skill of a call says on its way, besides the listeners."""
        self.unrecorded_reads = unrecorded_reads
        self.max_redispatches = max_redispatches
        self.scorer = checked_scorer(scorer)
        self.tool_registries = registries
        self.owner = owner_name(self.clock.random_bytes(8).hex())
        self.mints = Mints(self.store.store_id)
        with suppress(KeyUnavailable, NotAuthentic):  # what was recorded can be read and replayed without it
            assert self.mint.kid
        self.drain_state = Drain(self.clock)
        self.heartbeat = Heartbeat(self.store)
        self.committer = Committer(self.store, replay_log)

    @property
    def mint(self) -> Mint:
        """Of the key that signs for new runs; KeyUnavailable where it is not here."""
        return self.mints.of(self.store.signing_key)

    def mint_for(self, run_id: str, kid: str) -> Mint:
        """Of the key that a run which began with `kid` goes on with; KeyUnavailable where it is not here."""
        mint = self.mints.of(self.store.key_for(run_id, kid))
        if mint.kid != kid:
            mint.follow(kid, self.store.public_keys()[kid])
        return mint

    def mode(self, fold: RunFold) -> Mode:
        """How this run goes on; a replay needs to know its original."""
        mode: RunMode = "live" if fold.record is None else fold.record.mode
        if mode not in self.modes:
            raise UsageError(f"run {fold.run_id} is a {mode}: go on with it through reenact.replay")
        return self.modes[mode]

    def held(self, run: Run) -> Hold:
        """The run is kept by heartbeats while the block goes on, and given back at its end."""
        return Hold(run, self.heartbeat, self.committer, self.drain_state.held)

    def close(self) -> None:
        if self.shadow is not None:
            self.shadow.close()
        self.committer.close()
        self.store.close()


def checked_scorer(scorer: Scorer | None) -> Scorer | None:
    if scorer is not None and not callable(scorer):
        raise UsageError(f"scorer is a function of an outcome that gives a number from -1 to +1, not {scorer!r}")
    return scorer


def found_skills() -> Registry:
    try:
        return default_registry()
    except OSError as error:
        if error.errno not in TooManyFiles.numbers:
            raise
        raise TooManyFiles("skills cannot be looked for") from None


def chosen_store(store: Store | str | Path | None, clock: Clock) -> Store:
    if store is None or isinstance(store, str | Path):
        return open_store(store, clock=clock)
    return store
