"""Live replays that were interrupted go on as they were told: what each mode registers with the engine."""

from __future__ import annotations

from typing import cast

from reenact.contracts.plan import Plan
from reenact.errors import RunNotFound, UsageError
from reenact.journal.run_fold import RunFold
from reenact.record.recording import Recording, load_recording
from reenact.record.result import RunResult
from reenact.replay.result import GoOn
from reenact.runtime.effects.source import EffectSource
from reenact.runtime.engine import Engine
from reenact.runtime.plans.steps import RunPlan
from reenact.runtime.run import Run


class FullReplayMode:
    """full_replay: the world for steps that are executed, the recording for the others."""

    def bind(
        self, engine: Engine, fold: RunFold, _plan: Plan, document: dict[str, object], /
    ) -> tuple[RunPlan, EffectSource]:
        from reenact.replay.modes import full
        from reenact.replay.modes.actions import parse_actions
        from reenact.replay.sources.stand_in import ReplayPlan

        recording, actions = original_of(engine, fold), parse_actions(told(engine, fold).get("actions"))
        bound = ReplayPlan(recording, document, engine.registry.freeze())
        bound.serve_only(full.not_executed(actions))
        return bound, full.full_source(engine, recording, bound, actions)

    async def go_on(self, engine: Engine, run: Run) -> RunResult:
        from reenact.replay.modes import full
        from reenact.replay.modes.actions import parse_actions

        fold = run.journal.fold
        said = told(engine, fold)
        actions, retried = parse_actions(said.get("actions")), said.get("retry_failed") is True
        return await full.resumed(engine, run, original_of(engine, fold), actions, [], retried=retried)


class ForkMode:
    """fork: the recording up to a step, then the world or the recording."""

    def bind(
        self, engine: Engine, fold: RunFold, _plan: Plan, document: dict[str, object], /
    ) -> tuple[RunPlan, EffectSource]:
        from reenact.replay.modes import fork
        from reenact.replay.sources.stand_in import ReplayPlan

        recording, said = original_of(engine, fold), told(engine, fold)
        at, go_on = str(said["at"]), cast("GoOn", said["go_on"])
        bound = ReplayPlan(recording, document, engine.registry.freeze())
        if go_on == "live":
            bound.serve_only(set(fork.before(bound, at)))
        outputs = cast("dict[str, object]", said.get("outputs") or {})
        return bound, fork.fork_source(engine, recording, bound, at, outputs, go_on)

    async def go_on(self, engine: Engine, run: Run) -> RunResult:
        from reenact.replay.modes import fork
        from reenact.replay.sources.stand_in import ReplayPlan

        fold = run.journal.fold
        said, plan = told(engine, fold), cast("ReplayPlan", run.plan)
        go_on = cast("GoOn", said["go_on"])
        return await fork.resumed(engine, run, original_of(engine, fold), plan, str(said["at"]), go_on)


def told(engine: Engine, fold: RunFold) -> dict[str, object]:
    """What the replay was told when it began: it stands in its own journal."""
    from reenact.replay.modes.notes import directive_of

    return directive_of(engine.store, fold.run_id, fold)


def original_of(engine: Engine, fold: RunFold) -> Recording:
    """The run that this one replays; it must be in the same store to go on after a crash."""
    assert fold.record is not None
    parent = fold.record.parent_run
    try:
        return load_recording(engine.store, str(parent))
    except RunNotFound:
        raise UsageError(
            f"run {fold.run_id} replays {parent}, which is not in this store; start it again from the bundle"
        ) from None
