"""What a pinned plan would do, before anything runs: problems, risks, costs and times, for `reenact simulate`.

Dry runs answer it, each past every error so that all mistakes are told: one in which every call succeeds, and one in
which every call fails as often and as dearly as it may; where the budget would stop that one, it is made once more
without. What lies outside (which secrets are set, what was spent today, how long calls took before) is given.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from reenact.contracts.plan import plan_hash
from reenact.errors import PlanError
from reenact.journal.fold import TraceFold
from reenact.policy.cost import cents
from reenact.policy.retry import RetryPolicy, calculate_backoff_ms
from reenact.record.reader import RecordedStep
from reenact.replay.forecast.dry_plan import DryPlan, PlanSource
from reenact.replay.forecast.reachability import why_refused
from reenact.replay.forecast.risks import Risk, risks_of_call, risks_of_references
from reenact.replay.modes.dry import DryRun, run_dry
from reenact.runtime.effects.coroutines import run_sync
from reenact.runtime.gates.supervisor import load_supervisor
from reenact.runtime.plans.pinning import PinnedPlan
from reenact.runtime.plans.steps import PlannedStep
from reenact.skills.registry import Registry
from reenact.values.clock import SystemClock

ProblemKind = Literal[
    "skill", "definition", "parameters", "reference", "secret", "permission", "duplicate", "host", "disabled", "price",
    "budget", "supervisor",
]  # fmt: skip

KINDS: dict[str, ProblemKind] = {
    "ERR_SKILL_NOT_FOUND": "skill",
    "ERR_REFERENCE_UNRESOLVED": "reference",
    "ERR_SECRET_UNAVAILABLE": "secret",
    "ERR_LLM_INVALID_MODEL": "price",
    "DENIED_DUPLICATE": "duplicate",
    "ERR_BUDGET_EXCEEDED": "budget",
    "ERR_SKILL_DISABLED": "disabled",
}
ASKED_APART = ("ERR_REFERENCE_UNRESOLVED", "ERR_QUOTA_EXCEEDED", "ERR_LLM_INVALID_MODEL", "ERR_BUDGET_EXCEEDED")
"""Refused for what other steps are, do or cost: where the call itself goes is a question of its own."""


class Problem(Struct, frozen=True, kw_only=True):
    """Something that a run would stumble over. `certain` ones end it there, unless the plan goes on after errors."""

    step_id: str | None
    kind: ProblemKind
    code: str
    message: str
    certain: bool = True


class StepForecast(Struct, frozen=True, kw_only=True):
    """One step: `expected` is one attempt at its reservation, `worst` every retry at its reservation and its limit."""

    step_id: str
    skill: str
    risk_level: str
    side_effects: tuple[str, ...]
    in_doubt: str
    asks_person: bool = False
    attempts_at_most: int = 0
    expected_exact: str = "0"
    worst_exact: str = "0"
    usual_ms: int | None = 0
    worst_ms: int = 0
    reached: bool = True
    """False behind a step that certainly ends the run."""


class Simulation(Struct, frozen=True, kw_only=True):
    """The answer. Costs are picodollars as decimal strings, and cents rounded up."""

    feasible: bool
    plan_hash: str
    steps: tuple[StepForecast, ...]
    problems: tuple[Problem, ...]
    risks: tuple[Risk, ...]
    expected_exact: str
    expected_cents: int
    worst_exact: str
    worst_cents: int
    usual_ms: int | None
    """From earlier runs of the same skills; None where one of them never ran."""
    worst_ms: int
    """Every attempt to its time limit, with every back-off; a `Retry-After` may add a minute to each wait."""
    budget_cents: int | None
    budget_stops_at: str | None
    """The step that the budget certainly refuses, if every call costs what it reserves."""
    budget_may_stop_at: str | None
    """The first step that it may stop, if every retry is needed."""
    asks_persons_at: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outside:
    """What a forecast is told about the world."""

    has_secret: Callable[[str], bool] = lambda _: True
    usual_ms: Mapping[str, int] = field(default_factory=dict)
    """`id@version` → milliseconds that such a call usually takes"""
    day_spent: Mapping[str, int] = field(default_factory=dict)
    """model ("" for none) → picodollars that the agent spent today"""
    loads_supervisor: bool = False
    """Whether the function that the plan names may be imported, to see that it is there: the host's policy lists it."""


def simulate(pinned: PinnedPlan, registry: Registry, outside: Outside | None = None) -> Simulation:
    """What would come of running the pinned plan now."""
    return run_sync(forecast(pinned, registry.freeze(), outside or Outside()))


async def forecast(pinned: PinnedPlan, registry: Registry, outside: Outside) -> Simulation:
    async def dry_run(*, failing: bool = False, limited: bool = True) -> DryRun:
        plan = DryPlan(pinned, registry, past_errors=True, limited=limited)
        source = PlanSource(plan=plan, clock=SystemClock(), has_secret=outside.has_secret, failing=failing)
        return await run_dry(source, outside.day_spent)

    best, pressed = await dry_run(), await dry_run(failing=True)
    refused = over_budget(best)
    may_stop_at = next((step_id for step_id in over_budget(pressed) if step_id not in refused), None)
    worst = pressed if may_stop_at is None else await dry_run(failing=True, limited=False)
    looks = Looks(DryPlan(pinned, registry), outside, best, worst)
    await looks.take()
    return looks.summary(may_stop_at)


class Looks:
    """At each step of a plan in turn, with what two dry runs say of it: the best that may come and the worst."""

    def __init__(self, plan: DryPlan, outside: Outside, best: DryRun, worst: DryRun) -> None:
        self.plan = plan
        self.context = plan.plan.context
        self.outside = outside
        self.seen = best.source.seen
        self.best = best.steps
        self.worst = worst.steps
        self.step_of = {step.trace.trace_id: step_id for step_id, step in self.best.items()}
        self.steps: list[StepForecast] = []
        self.problems: list[Problem] = []
        self.risks: list[Risk] = []
        self.ended = False
        """A step that has been looked at certainly ends the run."""

    async def take(self) -> None:
        if self.outside.loads_supervisor:
            self.problems += problems_of_supervisor(self.context.supervisor)
        for number in range(len(self.plan)):
            step = self.plan.as_written(number)
            found = [problem async for problem in self.problems_of(step)]
            self.problems += found
            self.risks += risks_of_references(step, self.plan)
            self.steps.append(self.forecast(step))
            self.ended |= step.on_error == "abort" and any(problem.certain for problem in found)

    async def problems_of(self, step: PlannedStep) -> AsyncIterator[Problem]:
        """What its skill is not any more, then what ended it in the best run."""
        pinned = step.definition_digest
        if step.skill is not None and pinned is not None and not step.skill.is_defined_as(pinned):
            message = f"{step.reference} is declared otherwise than when the plan was pinned; pin it again"
            yield problem(step, "definition", "DRIFT", message, certain=False)
        outcome = self.best[step.step_id].outcome()
        if outcome.ok:
            return
        details = outcome.details or {}
        kind = kind_of(outcome.code, details)
        if outcome.code in ASKED_APART:
            refused = await why_refused(step, self.plan.step(step.index).parameters, self.plan.context)
            if refused is not None:
                yield problem(step, kind_of(refused.code, {}), refused.code, str(refused))
        if kind == "duplicate":
            message = f"step {self.step_of[str(details['duplicate_of'])]} makes the same call: this one is left out"
            yield problem(step, kind, outcome.code, message, certain=False)
        else:
            yield problem(step, kind, outcome.code, str(details.get("reason", outcome.message)))

    def forecast(self, step: PlannedStep) -> StepForecast:
        meta, seen = None if step.skill is None else step.skill.metadata, self.seen.get(step.step_id)
        told = StepForecast(
            step_id=step.step_id,
            skill=step.reference,
            risk_level=step.risk_level(step.parameters),
            side_effects=() if meta is None else meta.side_effects,
            in_doubt="redispatch" if meta is None else meta.in_doubt,
            reached=not self.ended,
        )
        if self.ended or seen is None or seen.fails:
            return told
        self.risks += risks_of_call(step, self.context.supervisor)
        worst = self.worst[step.step_id].trace
        return replace(
            told,
            asks_person=seen.asks_person,
            attempts_at_most=worst.made,
            expected_exact=str(self.best[step.step_id].trace.cost_exact),
            worst_exact=str(worst.cost_exact),
            usual_ms=self.outside.usual_ms.get(step.reference),
            worst_ms=longest_time(step, worst),
        )

    def summary(self, may_stop_at: str | None) -> Simulation:
        expected = sum(int(step.expected_exact) for step in self.steps)
        worst = sum(int(step.worst_exact) for step in self.steps)
        usual = [step.usual_ms for step in self.steps if step.usual_ms is not None]
        return Simulation(
            feasible=not self.ended and not any(found.step_id is None for found in self.problems),
            plan_hash=plan_hash(self.plan.document),
            steps=tuple(self.steps),
            problems=tuple(self.problems),
            risks=tuple(self.risks),
            expected_exact=str(expected),
            expected_cents=cents(expected),
            worst_exact=str(worst),
            worst_cents=cents(worst),
            usual_ms=sum(usual) if len(usual) == len(self.steps) else None,
            worst_ms=sum(step.worst_ms for step in self.steps),
            budget_cents=self.context.budget_cents,
            budget_stops_at=next((found.step_id for found in self.problems if found.kind == "budget"), None),
            budget_may_stop_at=may_stop_at,
            asks_persons_at=tuple(step.step_id for step in self.steps if step.asks_person),
        )


def problem(step: PlannedStep, kind: ProblemKind, code: str, message: str, *, certain: bool = True) -> Problem:
    return Problem(step_id=step.step_id, kind=kind, code=code, message=message, certain=certain)


def problems_of_supervisor(name: str) -> Iterator[Problem]:
    """A dry run asks nobody; a run is refused without the function that its plan names."""
    try:
        load_supervisor(name)
    except PlanError as error:
        yield Problem(step_id=None, kind="supervisor", code="ERR_POLICY_VIOLATION", message=str(error))


def kind_of(code: str, details: Mapping[str, object]) -> ProblemKind:
    """By the gate that refused; what no gate did, the skill would have."""
    gate = details.get("gate")
    if gate == "permission":
        return "permission"
    if "secret_at" in details:
        return "secret"
    return KINDS.get(code, "host" if gate is None else "parameters")


def over_budget(run: DryRun) -> dict[str, RecordedStep]:
    return {step_id: step for step_id, step in run.steps.items() if step.outcome().code == "ERR_BUDGET_EXCEEDED"}


def longest_time(step: PlannedStep, trace: TraceFold) -> int:
    """Every attempt to its time limit, and the waits between them."""
    waits = (longest_wait(past.attempt, step.retry) for past in trace.attempts if past.backoff_ms is not None)
    return trace.made * step.timeout_ms + sum(waits)


def longest_wait(number: int, policy: RetryPolicy) -> int:
    """The back-off after an attempt with all the jitter that it may have."""
    bare = calculate_backoff_ms(number, replace(policy, jitter_enabled=False), "")
    jitter = max(0, policy.jitter_max_ms - 1) if policy.jitter_enabled else 0
    return min(bare + jitter, policy.longest_wait_ms)
