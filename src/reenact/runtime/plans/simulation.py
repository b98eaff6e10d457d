"""What a pinned plan would do, before anything runs: pure, from the plan and the skills at hand.

Nothing is called, resolved or looked up here; what lies outside (which secrets are set, what was spent today, how long
calls took before) is given. The gates' own checks decide, so that what is feasible here is what they let pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from reenact.contracts.references import (
    UnresolvedReference,
    has_references,
    references_in,
    secret_names,
    split_path,
    unescape,
    with_unknowns,
)
from reenact.errors import PlanError, SkillError, UnknownPrice
from reenact.policy.budget import LedgerDecision, Spent, budget_policy, check_ledger
from reenact.policy.cost import PriceTable, cents
from reenact.policy.literals import literal_secrets
from reenact.policy.redaction import SecretRules
from reenact.policy.retry import RetryPolicy, calculate_backoff_ms
from reenact.policy.settle import tariff
from reenact.runtime.gates import external, permission, validate
from reenact.runtime.gates.supervisor import load_supervisor
from reenact.runtime.gates.verdict import Refusal
from reenact.runtime.plans.reachability import why_blocked, why_disabled
from reenact.runtime.plans.steps import PlannedStep, RunPlan
from reenact.skills.estimate import PROMPT_FIELDS
from reenact.skills.schema_paths import leads_somewhere

ProblemKind = Literal[
    "skill", "definition", "parameters", "reference", "secret", "permission", "host", "disabled", "price", "budget",
    "supervisor",
]  # fmt: skip


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a run would stumble over. `certain` ones end it there, unless the plan goes on after errors."""

    step_id: str | None
    kind: ProblemKind
    code: str
    message: str
    certain: bool = True


RiskKind = Literal["writes", "high_risk", "in_doubt", "no_key", "not_retried", "reference", "cost"]


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person may want to know before saying yes."""

    step_id: str
    kind: RiskKind
    message: str


class StepForecast(msgspec.Struct, frozen=True, kw_only=True):
    """One step: `expected` is one attempt at its reservation, `worst` every retry at its reservation and its limit."""

    step_id: str
    skill: str
    risk_level: str
    side_effects: tuple[str, ...]
    in_doubt: str
    asks_person: bool
    attempts_at_most: int
    expected_exact: str
    worst_exact: str
    usual_ms: int | None
    worst_ms: int
    reached: bool = True
    """False behind a step that certainly ends the run."""


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
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
    """What a simulation is told about the world."""

    has_secret: Callable[[str], bool] = lambda _: True
    usual_ms: Mapping[str, int] = field(default_factory=dict)
    """`id@version` → milliseconds that such a call usually takes"""
    day_spent: Mapping[str, int] = field(default_factory=dict)
    """model ("" for none) → picodollars that the agent spent today"""


def simulate(plan: RunPlan, plan_hash: str, outside: Outside | None = None) -> Simulation:
    """What would come of running the plan now."""
    return _Simulating(plan, outside or Outside()).run(plan_hash)


class _Simulating:
    def __init__(self, plan: RunPlan, outside: Outside) -> None:
        self.plan = plan
        self.context = plan.plan.context
        self.outside = outside
        self.prices = PriceTable.of(plan.pins.prices)
        self.budget = budget_policy(self.context.budget_cents, self.context.budget)
        self.problems: list[Problem] = []
        self.risks: list[Risk] = []
        self.steps: list[StepForecast] = []
        self.expected = self.worst = 0
        self.by_model: dict[str, tuple[int, int]] = {}
        self.external = 0
        self.stops_at: str | None = None
        self.may_stop_at: str | None = None

    def run(self, plan_hash: str) -> Simulation:
        self.check_supervisor()
        earlier: dict[str, int] = {}
        reached = True
        for number in range(len(self.plan)):
            step = self.plan.step(number)
            found = list(self.look_at(step, earlier))
            self.problems += found
            self.steps.append(self.forecast(step, reached=reached, refused=any(problem.certain for problem in found)))
            if any(problem.certain for problem in found) and step.on_error == "abort":
                reached = False
            earlier[step.step_id] = number
        return self.summary(plan_hash)

    def check_supervisor(self) -> None:
        try:
            load_supervisor(self.context.supervisor)
        except PlanError as error:
            self.problems.append(
                Problem(step_id=None, kind="supervisor", code="ERR_POLICY_VIOLATION", message=str(error))
            )

    # -- one step --------------------------------------------------------------------------------------------------

    def look_at(self, step: PlannedStep, earlier: Mapping[str, int]) -> Iterator[Problem]:
        """The gates in their order; the first that says no ends the look, as it would end the step."""
        if step.skill is None:
            yield problem(step, "skill", "ERR_SKILL_NOT_FOUND", validate.absent(step, self.plan.registry))
            return
        if step.definition_digest not in (None, step.skill.digest):
            message = f"{step.reference} is declared otherwise than when the plan was pinned; pin it again"
            yield problem(step, "definition", "DRIFT", message, certain=False)
        refusals = [*self.in_references(step, earlier), *self.in_parameters(step), *self.in_secrets(step)]
        if refusals:
            yield refusals[0]
            return
        known = {name: value for name, value in step.parameters.items() if not has_references(value)}
        refusal = permission.check(step, self.context, known) or self.too_many(step)
        if refusal is not None:
            yield problem(step, "permission", refusal.code, refusal.message)
            return
        yield from self.in_surroundings(step)
        yield from self.in_budget(step)

    def too_many(self, step: PlannedStep) -> Refusal | None:
        most = None if self.context.profile is None else self.context.profile.max_external_calls
        if most is None or self.external < most or not self.reaches_out(step):
            return None
        return external.one_too_many(most)

    def reaches_out(self, step: PlannedStep) -> bool:
        return external.is_external(self.plan, step, step.risk_level(step.parameters))

    def in_references(self, step: PlannedStep, earlier: Mapping[str, int]) -> Iterator[Problem]:
        for place, path in references_in(step.parameters):
            try:
                name, parts = split_path(path, earlier, place)
            except UnresolvedReference as error:
                yield problem(step, "reference", "ERR_REFERENCE_UNRESOLVED", str(error))
                continue
            source = self.plan.step(earlier[name]).skill
            if source is not None and not leads_somewhere(source.metadata.output_schema, parts):
                message = f"{place}: {{{{{path}}}}} is nothing that {source.metadata.reference} declares to return"
                self.risks.append(Risk(step_id=step.step_id, kind="reference", message=message))

    def in_parameters(self, step: PlannedStep) -> Iterator[Problem]:
        assert step.skill is not None
        guessed = unescape(with_unknowns(step.parameters), None)
        assert isinstance(guessed, dict)
        for found in step.skill.validate(guessed):
            yield problem(step, "parameters", "ERR_VALIDATION_FAILED", f"{step.reference}: {found}")

    def in_secrets(self, step: PlannedStep) -> Iterator[Problem]:
        for name in secret_names(step.parameters):
            if not self.outside.has_secret(name):
                yield problem(step, "secret", "ERR_SECRET_UNAVAILABLE", f"the secret {name} is not set")
        rules = SecretRules((), (*self.context.secret_fields, *step.redact_hints))
        for place in literal_secrets(step.parameters, rules):
            message = f"{place} looks like a secret, which a plan must not hold"
            yield problem(step, "secret", "ERR_VALIDATION_FAILED", message)

    def in_surroundings(self, step: PlannedStep) -> Iterator[Problem]:
        """What a skill of ours would refuse without touching anything."""
        try:
            blocked = why_blocked(step.skill_id, step.parameters, self.plan.context)
        except SkillError as error:
            blocked = str(error)
        if blocked is not None:
            yield problem(step, "host", "ERR_BLOCKED_HOST", blocked)
        disabled = why_disabled(step.skill_id, self.plan.context)
        if disabled is not None:
            yield problem(step, "disabled", "ERR_SKILL_DISABLED", disabled)

    def in_budget(self, step: PlannedStep) -> Iterator[Problem]:
        try:
            required = self.reservation(step)
        except UnknownPrice as error:
            yield problem(step, "price", "ERR_LLM_INVALID_MODEL", str(error))
            return
        rate = tariff(self.plan.pins.prices, step.reference, step.parameters)
        decision = self.ledger(required, rate.model, worst=False)
        if not decision:
            self.stops_at = self.stops_at or step.step_id
            yield problem(step, "budget", "ERR_BUDGET_EXCEEDED", decision.reason)
            return
        retried = required * (attempts_of(step)[1] - 1)
        if not self.ledger(required, rate.model, worst=True, retried=retried):
            self.may_stop_at = self.may_stop_at or step.step_id

    def reservation(self, step: PlannedStep) -> int:
        assert step.skill is not None
        plain = unescape(step.parameters, None)
        assert isinstance(plain, dict)
        return step.skill.estimate(plain, self.prices)

    def ledger(self, required: int, model: str | None, *, worst: bool, retried: int = 0) -> LedgerDecision:
        """`retried` is what earlier attempts of the same step took."""
        spent = (self.worst if worst else self.expected) + retried
        day = sum(self.outside.day_spent.values()) + spent
        on_model = self.outside.day_spent.get(model or "", 0) + self.by_model.get(model or "", (0, 0))[worst] + retried
        return check_ledger(
            self.budget,
            required,
            run=Spent(spent),
            step=Spent(retried),
            day=Spent(day),
            model=model,
            model_spent=Spent(on_model),
        )

    # -- what it comes to ------------------------------------------------------------------------------------------

    def forecast(self, step: PlannedStep, *, reached: bool, refused: bool) -> StepForecast:
        runs = reached and not refused and step.skill is not None
        attempts, billed = attempts_of(step)
        expected = worst = 0
        if runs:
            expected = self.reservation(step)
            worst = expected * billed
            self.spend(step, expected, worst)
            self.risks += risks_of(step, self.context.supervisor)
            self.risks += risks_of_cost(step)
        asks = runs and self.context.supervisor == "ask" and step.risk_level(step.parameters) != "READ"
        meta = None if step.skill is None else step.skill.metadata
        return StepForecast(
            step_id=step.step_id,
            skill=step.reference,
            risk_level=step.risk_level(step.parameters),
            side_effects=() if meta is None else meta.side_effects,
            in_doubt="redispatch" if meta is None else meta.in_doubt,
            asks_person=asks,
            attempts_at_most=attempts if runs else 0,
            expected_exact=str(expected),
            worst_exact=str(worst),
            usual_ms=self.outside.usual_ms.get(step.reference) if runs else 0,
            worst_ms=worst_time(step, attempts) if runs else 0,
            reached=reached,
        )

    def spend(self, step: PlannedStep, expected: int, worst: int) -> None:
        model = tariff(self.plan.pins.prices, step.reference, step.parameters).model or ""
        before = self.by_model.get(model, (0, 0))
        self.by_model[model] = (before[0] + expected, before[1] + worst)
        self.expected += expected
        self.worst += worst
        self.external += self.reaches_out(step)

    def summary(self, plan_hash: str) -> Simulation:
        usual = [step.usual_ms for step in self.steps]
        on_error = {step.step_id: self.plan.step(number).on_error for number, step in enumerate(self.steps)}
        fatal = [
            problem
            for problem in self.problems
            if problem.certain and on_error.get(problem.step_id or "", "abort") == "abort"
        ]
        return Simulation(
            feasible=not fatal,
            plan_hash=plan_hash,
            steps=tuple(self.steps),
            problems=tuple(self.problems),
            risks=tuple(self.risks),
            expected_exact=str(self.expected),
            expected_cents=cents(self.expected),
            worst_exact=str(self.worst),
            worst_cents=cents(self.worst),
            usual_ms=None if None in usual else sum(ms for ms in usual if ms is not None),
            worst_ms=sum(step.worst_ms for step in self.steps),
            budget_cents=self.context.budget_cents,
            budget_stops_at=self.stops_at,
            budget_may_stop_at=self.may_stop_at,
            asks_persons_at=tuple(step.step_id for step in self.steps if step.asks_person),
        )


def problem(step: PlannedStep, kind: ProblemKind, code: str, message: str, *, certain: bool = True) -> Problem:
    return Problem(step_id=step.step_id, kind=kind, code=code, message=message, certain=certain)


def attempts_of(step: PlannedStep) -> tuple[int, int]:
    """(attempts at most, how many of them may be billed). A write without a key repeats only what was never sent."""
    most = step.retry.max_retries + 1
    return most, most if may_be_retried(step) else 1


def may_be_retried(step: PlannedStep) -> bool:
    if step.skill is None:
        return False
    meta = step.skill.metadata
    repeatable = meta.tool_class is None and meta.idempotent
    return step.tool_class(step.parameters) == "read" or meta.honours_key or repeatable


def worst_time(step: PlannedStep, attempts: int) -> int:
    waits = sum(longest_wait(number, step.retry) for number in range(attempts - 1))
    return attempts * step.timeout_ms + waits


def longest_wait(number: int, policy: RetryPolicy) -> int:
    """The back-off after an attempt with all the jitter that it may have."""
    bare = calculate_backoff_ms(number, msgspec.structs.replace(policy, jitter_enabled=False), "")
    jitter = max(0, policy.jitter_max_ms - 1) if policy.jitter_enabled else 0
    return min(bare + jitter, policy.max_backoff_ms)


def risks_of(step: PlannedStep, supervisor: str) -> Iterator[Risk]:
    assert step.skill is not None
    meta, level = step.skill.metadata, step.risk_level(step.parameters)
    if level == "READ":
        return
    effects = f" ({', '.join(meta.side_effects)})" if meta.side_effects else ""
    asked = ", a person is asked first" if supervisor == "ask" else ""
    if level == "HIGH_RISK":
        yield risk(step, "high_risk", f"{step.reference} is of high risk{effects}{asked}")
    else:
        yield risk(step, "writes", f"{step.reference} writes{effects}{asked}")
    if meta.in_doubt == "redispatch" and not meta.honours_key:
        yield risk(step, "in_doubt", "after a crash it is sent again, and nothing says that its tool notices")
    elif meta.in_doubt == "hold":
        yield risk(step, "in_doubt", "after a crash the run is held for a person")
    if step.caller_key is None and not meta.honours_key:
        yield risk(step, "no_key", "it has no idempotency_key: running the plan again does it again")
    if not may_be_retried(step):
        yield risk(step, "not_retried", "once something was sent, a failure is not retried")


def risks_of_cost(step: PlannedStep) -> Iterator[Risk]:
    assert step.skill is not None
    prompt = [step.parameters.get(name) for name in PROMPT_FIELDS]
    if step.skill.metadata.cost_model == "tokens" and has_references(prompt):
        yield risk(step, "cost", "its prompt holds what an earlier step returns: it may cost more than is shown here")


def risk(step: PlannedStep, kind: RiskKind, message: str) -> Risk:
    return Risk(step_id=step.step_id, kind=kind, message=message)
