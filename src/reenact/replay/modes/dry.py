"""dry_run: the plan once more with nothing touched: what it would cost, take and touch, where the budget would stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from reenact.contracts.facts import Facts
from reenact.contracts.plan import Plan, Step
from reenact.contracts.references import has_references
from reenact.journal.fold import TraceFold
from reenact.policy.budget import Spent
from reenact.policy.cost import cents
from reenact.record.reader import RecordedStep, steps_of
from reenact.record.recording import Recording
from reenact.replay.breakers import Breaker, find_breakers
from reenact.replay.result import Estimate, ReplayResult, StepEstimate, StepReport
from reenact.replay.sources.instant import InstantDoor
from reenact.replay.sources.recorded import elapsed_ms, recorded_output
from reenact.replay.sources.stand_in import NO_SIGNATURE, ReplayPlan, never_called
from reenact.replay.steps import nobody
from reenact.runtime.effects.source import AttemptCall, AttemptResult, EffectSource, KeyVerdict
from reenact.runtime.engine import Engine
from reenact.runtime.gates.verdict import Approval, Verdict
from reenact.runtime.opening import begin
from reenact.runtime.plans.pinning import PinnedPlan
from reenact.runtime.plans.plan_run import run_plan
from reenact.runtime.plans.steps import PlannedStep, RunPlan
from reenact.skills.registry import Registry
from reenact.skills.skill import Skill
from reenact.store.base import Store
from reenact.store.open import in_memory
from reenact.values.clock import Door, SystemDoor


class Simulated(Struct, frozen=True, kw_only=True):
    """What one step is expected to do."""

    time_ms: int | None
    side_effects: tuple[tuple[str, str], ...]
    asks_person: bool


@dataclass(slots=True)
class SimulatedSource(EffectSource):
    """Effects that nobody has: every call succeeds and returns what it returned before, if it ever did."""

    recording: Recording | None
    supervisor: str
    door: Door
    seen: dict[str, Simulated] = field(default_factory=dict)

    def recorded(self, step_id: str) -> RecordedStep | None:
        return None if self.recording is None else self.recording.steps.get(step_id)

    def is_live(self, _step: PlannedStep, /) -> bool:
        return False

    async def attempt(self, call: AttemptCall) -> AttemptResult:
        recorded = self.recorded(call.step.step_id)
        effects = expected_side_effects(call.step, recorded)
        self.seen[call.step.step_id] = Simulated(
            time_ms=None if recorded is None else time_of(recorded),
            side_effects=tuple(effects),
            asks_person=self.supervisor == "ask" and call.step.risk_level(call.parameters) != "READ",
        )
        now = self.door.timestamp()
        has_effect = recorded is not None and recorded.trace.effect is not None
        return AttemptResult(
            facts=Facts(),
            started_at=now,
            ended_at=now,
            latency_ms=0,
            output=recorded_output(recorded)[1] if recorded is not None and has_effect else None,
            side_effects=effects,
        )

    def redispatches(self, _trace: TraceFold, /, **_known: bool) -> int:
        return 0

    def served_decision(self, _step: PlannedStep, /) -> Verdict | None:
        return Approval("auto")

    def served_parameters(self, step: PlannedStep, /) -> dict[str, object] | None:
        """A reference to an output that nobody made yet stays as it is written."""
        recorded = self.recorded(step.step_id)
        value = None if recorded is None else recorded.parameters()
        return value if isinstance(value, dict) else dict(step.parameters)

    def served_spending(self, _step: PlannedStep, /) -> tuple[Spent, Spent] | None:
        return Spent(), Spent()

    async def key_verdict(self, _step: PlannedStep, /) -> KeyVerdict | None:
        return KeyVerdict()


def expected_side_effects(step: PlannedStep, recorded: RecordedStep | None) -> list[tuple[str, str]]:
    """Of one attempt: as the recorded one that ended the step, else as the skill declares them."""
    if recorded is not None and recorded.trace.attempts:
        return [(effect.type, effect.target) for effect in recorded.trace.attempts[-1].side_effects]
    declared = () if step.skill is None else step.skill.metadata.side_effects
    return [(name, step.skill_id) for name in declared]


def time_of(recorded: RecordedStep) -> int:
    """What the step took: its attempts and the waits between them."""
    return sum(elapsed_ms(attempt) + (attempt.backoff_ms or 0) for attempt in recorded.trace.attempts)


class Expecting(Skill):
    """A skill whose parameters are not all known: what refers to an output that nobody made is not held against it."""

    def __init__(self, skill: Skill) -> None:
        super().__init__(never_called, skill.metadata, NO_SIGNATURE)

    def validate(self, parameters: Mapping[str, Any]) -> list[str]:
        return [] if has_references(dict(parameters)) else super().validate(parameters)


class DryPlan(RunPlan):
    """A plan that never ran: nothing that it refers to is there, so references stay as they are written."""

    def __init__(self, plan: Plan, document: dict[str, object], registry: Registry) -> None:
        super().__init__(plan, document, registry)
        self.literal = True

    def skill(self, step: Step) -> Skill | None:
        found = super().skill(step)
        return None if found is None else Expecting(found)


async def dry_run(recording: Recording, registry: Registry, *, door: Door | None = None) -> ReplayResult:
    """What the recorded plan would cost, take and touch if it ran today."""
    plan = ReplayPlan(recording, recording.document, registry)
    breakers = find_breakers(recording.document, recording.document, registry)
    return await simulate(plan, recording, registry, breakers, door or SystemDoor())


async def dry_run_plan(pinned: PinnedPlan, registry: Registry, *, door: Door | None = None) -> ReplayResult:
    """The same for a pinned plan that never ran; times are not known."""
    plan = DryPlan(*pinned, registry)
    return await simulate(plan, None, registry, [], door or SystemDoor())


async def simulate(
    plan: RunPlan,
    recording: Recording | None,
    registry: Registry,
    breakers: list[Breaker],
    door: Door,
) -> ReplayResult:
    source = SimulatedSource(recording, plan.plan.context.supervisor, door)
    engine = Engine(in_memory(), skills=registry, supervisor=nobody, door=InstantDoor(door))
    original = "" if recording is None else recording.run_id
    run = begin(engine, plan, source, mode="dry_run", parent_run=original or None)
    status = await run_plan(run)
    return ReplayResult(
        run_id=run.run_id,
        status=status,
        store=engine.store,
        mode="dry_run",
        original_run_id=original,
        verdict="estimated",
        how=tuple(
            StepReport(step_id=step.step_id, how="simulated" if step.step_id in source.seen else "not reached")
            for step in plan.plan.steps
        ),
        breakers=tuple(breakers),
        estimate=estimate_of(engine.store, run.run_id, source),
    )


def estimate_of(store: Store, run_id: str, source: SimulatedSource) -> Estimate:
    steps: list[StepEstimate] = []
    total, stops_at = 0, None
    for step in steps_of(store, run_id).values():
        outcome, seen = step.outcome(), source.seen.get(step.step_id)
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
