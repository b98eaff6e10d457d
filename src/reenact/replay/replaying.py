"""The runtime that also replays: `reenact.Runtime`. Replays that were interrupted go on as they were told.

What a replay needs is imported when one is asked for: a program that only runs plans pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from reenact.contracts.plan import Plan
from reenact.errors import RunNotFound, UsageError
from reenact.journal.run_fold import RunFold
from reenact.record.result import RunResult
from reenact.runtime.effects.source import EffectSource
from reenact.runtime.plans.steps import RunPlan
from reenact.runtime.runtime import UNFINISHED, PlanLike, run_sync
from reenact.runtime.runtime import Runtime as PlainRuntime

if TYPE_CHECKING:
    from reenact.record.recording import Recording
    from reenact.replay.modes.changes import Changes
    from reenact.replay.result import GoOn, ReplayResult

REPLAYS = ("full_replay", "fork")


class Runtime(PlainRuntime):
    """Runs plans on a store, and runs what it recorded again."""

    def replay(
        self,
        run: str | Path,
        *,
        mode: str = "mock_replay",
        execute: Iterable[str] = (),
        skip: Iterable[str] = (),
        check: Iterable[str] = (),
        allow_breakers: bool = False,
        save: bool = False,
    ) -> ReplayResult:
        """Replay a run of this store, or an exported folder: see `reenact.replay.replay_async`."""
        return run_sync(
            self.replay_async(
                run,
                mode=mode,
                execute=execute,
                skip=skip,
                check=check,
                allow_breakers=allow_breakers,
                save=save,
            )
        )

    async def replay_async(
        self,
        run: str | Path,
        *,
        mode: str = "mock_replay",
        execute: Iterable[str] = (),
        skip: Iterable[str] = (),
        check: Iterable[str] = (),
        allow_breakers: bool = False,
        save: bool = False,
    ) -> ReplayResult:
        from reenact.replay.api import replay_async

        return await replay_async(
            self, run, mode=mode, execute=execute, skip=skip, check=check, allow_breakers=allow_breakers, save=save
        )

    def fork(
        self,
        run: str | Path,
        at: str,
        *,
        changes: Changes | None = None,
        live: bool = False,
        allow_breakers: bool = False,
    ) -> ReplayResult:
        """A new run with the recorded steps before `at`, going on from there: see `reenact.replay.modes.fork.fork`."""
        return run_sync(self.fork_async(run, at, changes=changes, live=live, allow_breakers=allow_breakers))

    async def fork_async(
        self,
        run: str | Path,
        at: str,
        *,
        changes: Changes | None = None,
        live: bool = False,
        allow_breakers: bool = False,
    ) -> ReplayResult:
        from reenact.replay.api import load
        from reenact.replay.modes.fork import fork

        go_on: GoOn = "live" if live else "mock"
        return await fork(self, load(self, run), at, changes=changes, go_on=go_on, allow_breakers=allow_breakers)

    def dry_run(self, plan: PlanLike) -> ReplayResult:
        """What a plan that never ran would cost and touch, and where its budget would stop it. Nothing is touched."""
        return run_sync(self.dry_run_async(plan))

    async def dry_run_async(self, plan: PlanLike) -> ReplayResult:
        from reenact.replay.forecast.dry_plan import dry_run_plan

        return await dry_run_plan(self.pinned(plan), self.registry.freeze(), door=self.door)

    # -- going on with replays that were interrupted ----------------------------------------------------------------

    async def resume_async(self, run_id: str) -> RunResult:
        row = self.store.find_run(run_id)
        if row.mode not in REPLAYS or row.status not in UNFINISHED:
            return await super().resume_async(run_id)
        from reenact.replay.modes import fork, full
        from reenact.replay.modes.actions import parse_actions
        from reenact.replay.sources.stand_in import ReplayPlan

        ex = self.reopen_run(row.run_id)
        recording, told = self.original_of(ex.fold), self.told(ex.fold)
        if row.mode == "full_replay":
            return await full.conduct(self, ex, recording, parse_actions(told.get("actions")), [])
        go_on = cast("GoOn", told["go_on"])
        return await fork.conduct(self, ex, recording, cast("ReplayPlan", ex.plan), str(told["at"]), go_on)

    def bind(self, fold: RunFold, plan: Plan, document: dict[str, object]) -> RunPlan:
        if fold.record is None or fold.record.mode not in REPLAYS:
            return super().bind(fold, plan, document)
        from reenact.replay.modes import fork, full
        from reenact.replay.modes.actions import parse_actions
        from reenact.replay.sources.stand_in import ReplayPlan

        told = self.told(fold)
        bound = ReplayPlan(self.original_of(fold), document, self.registry.freeze())
        if fold.record.mode == "full_replay":
            bound.serve_only(full.not_executed(parse_actions(told.get("actions"))))
        elif told["go_on"] == "live":
            bound.serve_only(set(fork.before(bound, str(told["at"]))))
        return bound

    def source_for(self, fold: RunFold, bound: RunPlan) -> EffectSource:
        if fold.record is None or fold.record.mode not in REPLAYS:
            return super().source_for(fold, bound)
        from reenact.replay.modes import fork, full
        from reenact.replay.modes.actions import parse_actions
        from reenact.replay.sources.stand_in import ReplayPlan

        recording, told = self.original_of(fold), self.told(fold)
        if fold.record.mode == "full_replay":
            return full.full_source(self, recording, bound, parse_actions(told.get("actions")))
        assert isinstance(bound, ReplayPlan)
        outputs = cast("dict[str, object]", told.get("outputs") or {})
        return fork.fork_source(self, recording, bound, str(told["at"]), outputs, cast("GoOn", told["go_on"]))

    def told(self, fold: RunFold) -> dict[str, object]:
        from reenact.replay.modes.notes import directive_of

        return directive_of(self.store, fold.run_id, fold)

    def original_of(self, fold: RunFold) -> Recording:
        """The run that this one replays; it must be in the same store to go on after a crash."""
        from reenact.record.recording import load_recording

        assert fold.record is not None
        parent = fold.record.parent_run
        try:
            return load_recording(self.store, str(parent))
        except RunNotFound:
            raise UsageError(
                f"run {fold.run_id} replays {parent}, which is not in this store; start it again from the bundle"
            ) from None
