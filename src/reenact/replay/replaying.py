"""The runtime that also replays: `reenact.Runtime`. Replays that were interrupted go on as they were told."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from reenact.contracts.plan import Plan
from reenact.errors import RunNotFound, UsageError
from reenact.journal.run_fold import RunFold
from reenact.replay import fork as forking
from reenact.replay import full
from reenact.replay.actions import parse_actions
from reenact.replay.api import load, replay_async
from reenact.replay.changes import Changes
from reenact.replay.notes import directive_of
from reenact.replay.recording import Recording, load_recording
from reenact.replay.result import ReplayResult
from reenact.replay.stand_in import ReplayPlan
from reenact.runtime.result import RunResult
from reenact.runtime.runtime import UNFINISHED, run_sync
from reenact.runtime.runtime import Runtime as PlainRuntime
from reenact.runtime.source import EffectSource
from reenact.runtime.steps import RunPlan


class Runtime(PlainRuntime):
    """Runs plans on a store, and runs what it recorded again."""

    def replay(self, run: str | Path, *, mode: str = "mock_replay", **options: object) -> ReplayResult:
        """Replay a run of this store, or an exported folder; `options` are those of `reenact.replay.replay`."""
        return run_sync(self.replay_async(run, mode=mode, **options))

    async def replay_async(self, run: str | Path, *, mode: str = "mock_replay", **options: object) -> ReplayResult:
        return await replay_async(self, run, mode=mode, **options)  # type: ignore[arg-type]  # checked there

    def fork(self, run: str | Path, at: str, *, changes: Changes | None = None, live: bool = False) -> ReplayResult:
        """A new run with the recorded steps before `at`, going on from there; see `reenact.replay.fork`."""
        return run_sync(self.fork_async(run, at, changes=changes, live=live))

    async def fork_async(
        self, run: str | Path, at: str, *, changes: Changes | None = None, live: bool = False
    ) -> ReplayResult:
        recording = load(self, run)
        return await forking.fork(self, recording, at, changes=changes, go_on="live" if live else "mock")

    # -- going on with replays that were interrupted ----------------------------------------------------------------

    async def resume_async(self, run_id: str) -> RunResult:
        row = self.store.find_run(run_id)
        if row.mode not in ("full_replay", "fork") or row.status not in UNFINISHED:
            return await super().resume_async(run_id)
        ex = self.reopen_run(row.run_id)
        recording = self.original_of(ex.fold)
        told = directive_of(self.store, ex.run_id, ex.fold)
        if row.mode == "full_replay":
            return await full.conduct(self, ex, recording, parse_actions(told.get("actions")), [])
        at, go_on = str(told["at"]), cast("forking.GoOn", told["go_on"])
        return await forking.conduct(self, ex, recording, cast("ReplayPlan", ex.plan), at, go_on)

    def bind(self, fold: RunFold, plan: Plan, document: dict[str, object]) -> RunPlan:
        if fold.record is None or fold.record.mode not in ("full_replay", "fork"):
            return super().bind(fold, plan, document)
        told = directive_of(self.store, fold.run_id, fold)
        bound = ReplayPlan(self.original_of(fold), document, self.registry.freeze())
        if fold.record.mode == "full_replay":
            bound.serve_only(full.not_executed(parse_actions(told.get("actions"))))
            return bound
        bound.serve_only(set(forking.before(bound, str(told["at"]))) if told["go_on"] == "live" else None)
        return bound

    def source_for(self, fold: RunFold, bound: RunPlan) -> EffectSource:
        record = fold.record
        if record is None or record.mode not in ("full_replay", "fork"):
            return super().source_for(fold, bound)
        recording = self.original_of(fold)
        told = directive_of(self.store, fold.run_id, fold)
        if record.mode == "full_replay":
            return full.full_source(self, recording, bound, parse_actions(told.get("actions")))
        assert isinstance(bound, ReplayPlan)
        outputs = cast("dict[str, object]", told.get("outputs") or {})
        go_on = cast("forking.GoOn", told["go_on"])
        return forking.fork_source(self, recording, bound, str(told["at"]), outputs, go_on)

    def original_of(self, fold: RunFold) -> Recording:
        """The run that this one replays; it must be in the same store to go on after a crash."""
        assert fold.record is not None
        parent = fold.record.parent_run
        try:
            return load_recording(self.store, str(parent))
        except RunNotFound:
            raise UsageError(
                f"run {fold.run_id} replays {parent}, which is not in this store; start it again from the bundle"
            ) from None
