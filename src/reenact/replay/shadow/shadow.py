"""A shadow run: the candidate's plan through the engine, in memory, held against what was recorded."""

from __future__ import annotations

from reenact.contracts.records import RunStatus
from reenact.record.reader import RecordedStep, steps_of
from reenact.record.recording import Recording
from reenact.replay.compare.counterfactual import Counterfactual, Side, counterfactual
from reenact.replay.modes.throw_away import throw_away_engine
from reenact.replay.shadow.candidate import Candidate
from reenact.replay.shadow.source import ShadowSource
from reenact.replay.sources.dry import DrySource
from reenact.replay.sources.stand_in import ReplayPlan
from reenact.runtime.opening import begin
from reenact.runtime.parked import Parked
from reenact.runtime.plans.plan_run import run_plan
from reenact.values.clock import Clock, SystemClock


async def shadow(recording: Recording, candidate: Candidate, *, clock: Clock | None = None) -> Counterfactual:
    """What the candidate would have decided. Calls that the recorded run made too have the recorded results; of others
    nobody knows, and the report says that theirs are assumed."""
    production = Side.of("recorded", recording.run_id, recording.status, recording.document, recording.steps)
    if candidate.refused is not None:
        nothing = Side.of(candidate.label, None, "refused", candidate.changes.document, {})
        return counterfactual("shadow", production, nothing, refused=candidate.refused)
    status, steps, source = await run_beside(recording, candidate, clock or SystemClock())
    side = Side.of(candidate.label, None, status, candidate.changes.document, steps, source.basis, source.asks)
    return counterfactual("shadow", production, side)


async def run_beside(
    recording: Recording, candidate: Candidate, clock: Clock
) -> tuple[RunStatus, dict[str, RecordedStep], ShadowSource]:
    plan = ReplayPlan(recording, candidate.changes.document, candidate.registry)
    engine = throw_away_engine(candidate.registry, clock, recording.store)
    source = ShadowSource(
        recording,
        plan.plan.context.supervisor,
        outputs=candidate.changes.outputs,
        dry=DrySource(plan, clock, recording),
    )
    run = begin(
        engine, plan, source, mode="dry_run", parent_run=recording.run_id, original_run_id=recording.seed_run_id
    )
    try:
        status = await run_plan(run)
    except Parked as parked:
        await run.journal.flush()
        status = parked.status
    return status, steps_of(engine.store, run.run_id), source
