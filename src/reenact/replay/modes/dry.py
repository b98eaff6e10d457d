"""dry_run: a plan through the engine with nothing touched: what it would cost, take and touch, where it would stop.

Every forecast is such a run, in a store that is thrown away: of what was recorded here, of a plan that never ran in
`reenact.replay.forecast`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import Struct

from reenact.contracts.facts import Facts
from reenact.contracts.records import RunStatus
from reenact.errors import SkillError
from reenact.policy.classify import facts_of
from reenact.policy.cost import cents
from reenact.record.reader import RecordedStep, steps_of
from reenact.record.recording import Recording
from reenact.replay.breakers import Breaker, find_breakers
from reenact.replay.forecast.reachability import why_refused
from reenact.replay.forecast.usual_times import time_of
from reenact.replay.result import Estimate, ReplayResult, StepEstimate, StepReport
from reenact.replay.sources.instant import InstantDoor
from reenact.replay.sources.recorded import recorded_output
from reenact.replay.sources.stand_in import ReplayPlan
from reenact.replay.steps import nobody
from reenact.runtime.effects.source import AttemptCall, AttemptResult, EffectSource, KeyVerdict
from reenact.runtime.engine import Engine
from reenact.runtime.gates.verdict import Approval, Verdict
from reenact.runtime.money import Money
from reenact.runtime.opening import begin
from reenact.runtime.plans.plan_run import run_plan
from reenact.runtime.plans.steps import PlannedStep, RunPlan
from reenact.skills.registry import Registry
from reenact.store.base import Store
from reenact.store.open import in_memory
from reenact.values.clock import Door, SystemDoor


class Expected(Struct, frozen=True, kw_only=True):
    """What one step is expected to do."""

    time_ms: int | None
    side_effects: tuple[tuple[str, str], ...]
    asks_person: bool
    fails: bool = False


@dataclass
class DrySource(EffectSource):
    """Effects that nobody has: a call succeeds and returns what it returned before, if it ever did."""

    plan: RunPlan
    door: Door
    recording: Recording | None = None
    seen: dict[str, Expected] = field(default_factory=dict)
    """The calls that were attempted, by step id."""
    money: Money = field(init=False)
    """That of the dry run."""

    def recorded(self, step_id: str) -> RecordedStep | None:
        return None if self.recording is None else self.recording.steps.get(step_id)

    def is_live(self, _step: PlannedStep, /) -> bool:
        return False

    async def attempt(self, call: AttemptCall) -> AttemptResult:
        recorded, now = self.recorded(call.step.step_id), self.door.timestamp()
        error = await self.failure(call)
        effects = [] if error is not None else expected_side_effects(call.step, recorded)
        self.seen[call.step.step_id] = Expected(
            time_ms=None if recorded is None else time_of(recorded.trace),
            side_effects=tuple(effects),
            asks_person=self.plan.plan.context.supervisor == "ask" and call.step.risk_level(call.parameters) != "READ",
            fails=error is not None,
        )
        has_effect = recorded is not None and recorded.trace.effect is not None
        return AttemptResult(
            facts=Facts() if error is None else facts_of(error),
            started_at=now,
            ended_at=now,
            latency_ms=0,
            output=recorded_output(recorded)[1] if recorded is not None and has_effect else None,
            side_effects=effects,
            message=None if error is None else str(error),
        )

    async def failure(self, call: AttemptCall) -> SkillError | None:
        """How the attempt would fail: as its skill does without touching anything. What succeeded once does again."""
        recorded = self.recorded(call.step.step_id)
        if recorded is not None and recorded.trace.state == "COMPLETED":
            return None
        return await why_refused(call.step, call.parameters, call.context)

    def served_decision(self, _step: PlannedStep, /) -> Verdict | None:
        return Approval("auto")

    def served_parameters(self, step: PlannedStep, /) -> dict[str, object] | None:
        """A reference to an output that nobody made yet stays as it is written."""
        recorded = self.recorded(step.step_id)
        value = None if recorded is None else recorded.parameters()
        return value if isinstance(value, dict) else dict(step.parameters)

    async def key_verdict(self, _step: PlannedStep, /) -> KeyVerdict | None:
        return KeyVerdict()


def expected_side_effects(step: PlannedStep, recorded: RecordedStep | None) -> list[tuple[str, str]]:
    """Of one attempt: as the recorded one that ended the step, else as the skill declares them."""
    if recorded is not None and recorded.trace.attempts:
        return [(effect.type, effect.target) for effect in recorded.trace.attempts[-1].side_effects]
    declared = () if step.skill is None else step.skill.metadata.side_effects
    return [(name, step.skill_id) for name in declared]


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """A dry run that has come to its end, and the throw-away store that it stands in."""

    run_id: str
    status: RunStatus
    store: Store
    source: DrySource

    @cached_property
    def steps(self) -> dict[str, RecordedStep]:
        return steps_of(self.store, self.run_id)


async def dry_run(recording: Recording, registry: Registry, *, door: Door | None = None) -> ReplayResult:
    """What the recorded plan would cost, take and touch if it ran today."""
    plan = ReplayPlan(recording, recording.document, registry)
    made = await run_dry(DrySource(plan, door or SystemDoor(), recording))
    return result_of(made, find_breakers(recording.document, recording.document, registry))


async def run_dry(source: DrySource, day_spent: Mapping[str, int] | None = None) -> DryRun:
    """Run the source's plan in memory. `day_spent` is what its agent has spent today, by model."""
    plan, original = source.plan, None if source.recording is None else source.recording.run_id
    engine = Engine(in_memory(), skills=plan.registry, supervisor=nobody, door=InstantDoor(source.door))
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
