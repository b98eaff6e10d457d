"""dry_run: a plan through the engine with nothing touched: what it would cost, take and touch, where it would stop.

Every forecast is such a run, in a store that is thrown away: of what was recorded, or of a plan that never ran
(`reenact.replay.forecast`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reenact.contracts.records import RunStatus
from reenact.policy.cost import cents
from reenact.record.reader import RecordedStep, steps_of
from reenact.record.recording import Recording
from reenact.replay.breakers import Breaker, find_breakers
from reenact.replay.forecast.dry_plan import DryPlan, PlanSource
from reenact.replay.modes.throw_away import throw_away_engine
from reenact.replay.result import Estimate, ReplayResult, StepEstimate, StepReport
from reenact.replay.sources.dry import DrySource
from reenact.replay.sources.stand_in import ReplayPlan
from reenact.runtime.opening import begin
from reenact.runtime.plans.pinning import PinnedPlan
from reenact.runtime.plans.plan_run import run_plan
from reenact.skills.registry import Registry
from reenact.store.base import Store
from reenact.values.clock import Clock, SystemClock
from reenact.values.threads import once


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """A dry run that has come to its end, and the throw-away store that it stands in."""

    run_id: str
    status: RunStatus
    store: Store
    source: DrySource

    @once
    def steps(self) -> dict[str, RecordedStep]:
        return steps_of(self.store, self.run_id)


async def dry_run(recording: Recording, registry: Registry, *, clock: Clock | None = None) -> ReplayResult:
    """What the recorded plan would cost, take and touch if it ran today."""
    plan = ReplayPlan(recording, recording.document, registry)
    made = await run_dry(DrySource(plan, clock or SystemClock(), recording))
    return result_of(made, find_breakers(recording.document, recording.document, registry))


async def dry_run_plan(pinned: PinnedPlan, registry: Registry, *, clock: Clock | None = None) -> ReplayResult:
    """What a pinned plan that never ran would cost and touch; times are not known."""
    return result_of(await run_dry(PlanSource(plan=DryPlan(pinned, registry), clock=clock or SystemClock())))


async def run_dry(source: DrySource, day_spent: Mapping[str, int] | None = None) -> DryRun:
    """Run the source's plan in memory. `day_spent` is what its agent has spent today, by model."""
    plan, original = source.plan, None if source.recording is None else source.recording.run_id
    engine = throw_away_engine(plan.registry, source.clock)
    run = begin(engine, plan, source, mode="dry_run", parent_run=original)
    source.money = run.money
    for model, exact in (day_spent or {}).items():
        run.money.spend(model, exact)
    return DryRun(run_id=run.run_id, status=await run_plan(run), store=engine.store, source=source)


def result_of(made: DryRun, breakers: Iterable[Breaker] = ()) -> ReplayResult:
    source = made.source
    return ReplayResult(
        run_id=made.run_id,
        status=made.status,
        store=made.store,
        mode="dry_run",
        original_run_id="" if source.recording is None else source.recording.run_id,
        verdict="estimated",
        how=tuple(
            StepReport(step_id=step.step_id, how="simulated" if step.step_id in source.seen else "not reached")
            for step in source.plan.plan.steps
        ),
        breakers=tuple(breakers),
        estimate=estimate_of(made),
    )


def estimate_of(made: DryRun) -> Estimate:
    steps: list[StepEstimate] = []
    total, stops_at = 0, None
    for step in made.steps.values():
        outcome, seen = step.outcome(), made.source.seen.get(step.step_id)
        total += step.trace.cost_exact
        if outcome.code == "ERR_BUDGET_EXCEEDED" and stops_at is None:
            stops_at = step.step_id
        steps.append(
            StepEstimate(
                step_id=step.step_id,
                code=outcome.code,
                cost_exact=str(step.trace.cost_exact),
                time_ms=None if seen is None else seen.time_ms,
                side_effects=() if seen is None else seen.side_effects,
                asks_person=seen is not None and seen.asks_person,
            )
        )
    times = [step.time_ms for step in steps if step.time_ms is not None]
    return Estimate(
        steps=tuple(steps), cost_exact=str(total), cost_cents=cents(total), time_ms=sum(times) if times else None,
        budget_stops_at=stops_at,
    )  # fmt: skip
