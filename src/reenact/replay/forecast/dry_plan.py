"""A plan that never ran, run dry: what its steps refer to is not known, and no forecast breaks on that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, cast

from msgspec.structs import replace

from reenact.contracts.references import (
    UnresolvedReference,
    has_encrypted,
    references_in,
    secret_names,
    split_path,
    with_unknowns,
)
from reenact.errors import SkillError
from reenact.journal.fold import TraceFold
from reenact.policy.budget import check_ledger
from reenact.policy.classify import classify, facts_of
from reenact.policy.literals import literal_secrets
from reenact.policy.redaction import SecretRules
from reenact.policy.repeat import may_repeat
from reenact.policy.settle import Tariff, settle, tariff
from reenact.replay.sources.dry import DrySource
from reenact.runtime.effects.source import AttemptCall, AttemptResult
from reenact.runtime.gates.answer import Refusal
from reenact.runtime.gates.validate import TOLD
from reenact.runtime.money import reserved_by
from reenact.runtime.plans.pinning import PinnedPlan
from reenact.runtime.plans.steps import PlannedStep, RunPlan
from reenact.skills.registry import Registry
from reenact.store.encryption import KEY_VARIABLE

Parameters = dict[str, object]


class Reference(NamedTuple):
    """`{{path}}` in the parameters of a step, and the step that it takes `rest` of; or `why` it names none."""

    place: str
    path: str
    source: PlannedStep | None = None
    rest: Sequence[str] = ()
    why: str | None = None


class DryPlan(RunPlan):
    """A pinned plan whose references are not resolved: what holds one is marked as a value that may be anything.

    `past_errors` goes on after steps that would end the run, for a look at all of them; without `limited` no budget
    counts.
    """

    def __init__(
        self, pinned: PinnedPlan, registry: Registry, *, past_errors: bool = False, limited: bool = True
    ) -> None:
        plan, document = pinned
        if not limited:
            plan = replace(plan, context=replace(plan.context, budget=None, budget_cents=None))
        super().__init__(plan, document, registry)
        self.literal = True
        self._past_errors = past_errors

    def references(self, step: PlannedStep) -> Iterator[Reference]:
        """What a step as written refers to."""
        for place, path in references_in(step.parameters):
            names = accumulate(path.split("."), "{}.{}".format)
            earlier = {name: self.index[name] for name in names if self.index.get(name, step.index) < step.index}
            try:
                name, rest = split_path(path, earlier, place)
            except UnresolvedReference as error:
                yield Reference(place, path, why=str(error))
            else:
                yield Reference(place, path, self.as_written(earlier[name]), rest)

    def rate(self, step: PlannedStep) -> Tariff:
        return tariff(self.pins.prices, step.reference, step.parameters)

    def as_written(self, number: int) -> PlannedStep:
        return super().step(number)

    def step(self, number: int) -> PlannedStep:
        step = self.as_written(number)
        parameters = cast("Parameters", with_unknowns(step.parameters, texts=True))
        return replace(step, parameters=parameters, on_error="continue" if self._past_errors else step.on_error)


@dataclass(kw_only=True)
class PlanSource(DrySource):
    """What would come of the calls of a plan: their costs count against the day and the model, as those of a live run.

    `failing` lets each call fail as often as it would be tried again, and as dearly, before it succeeds.
    """

    plan: DryPlan
    has_secret: Callable[[str], bool] = lambda _: True
    failing: bool = False

    def given_up(self, step: PlannedStep, /) -> Refusal | None:
        """What is wrong with the step as it is written, which tells more than its marked parameters do."""
        written = self.plan.as_written(step.index)
        unresolved = next((found.why for found in self.plan.references(written) if found.why is not None), None)
        if unresolved is not None:
            return Refusal("validate", "ERR_REFERENCE_UNRESOLVED", unresolved)
        if written.skill is None:
            return None  # the gate says so
        known = cast("Parameters", with_unknowns(written.parameters))
        problems = written.skill.validate(known)
        if problems:
            return Refusal("validate", "ERR_VALIDATION_FAILED", f"{step.reference}: {'; '.join(problems[:TOLD])}")
        return self.literal_secret(written) or self.nothing_to_take(written)

    def nothing_to_take(self, step: PlannedStep) -> Refusal | None:
        """A step that failed has no output. Where that ended the run, there is nobody who could take it."""
        for place, path, source, *_ in self.plan.references(step):
            seen = None if source is None else self.seen.get(source.step_id)
            if source is not None and source.on_error == "continue" and (seen is None or seen.fails):
                message = f"{place}: step {source.step_id!r} has no output to take {path!r} from"
                return Refusal("validate", "ERR_REFERENCE_UNRESOLVED", message)
        return None

    def literal_secret(self, step: PlannedStep) -> Refusal | None:
        """A plan that holds a secret is refused before it runs."""
        rules = SecretRules((), (*self.plan.plan.context.secret_fields, *step.redact_hints))
        places = literal_secrets(step.parameters, rules)
        if not places:
            return None
        message = f"{places[0]} looks like a secret, which a plan must not hold"
        return Refusal("validate", "ERR_VALIDATION_FAILED", message, {"secret_at": places})

    def missing_secret(self, step: PlannedStep, parameters: Parameters, /) -> str | None:
        names = secret_names(self.plan.as_written(step.index).parameters)
        absent = (name for name in names if not self.has_secret(name))
        return next(absent, KEY_VARIABLE if has_encrypted(parameters) else None)

    async def attempt(self, call: AttemptCall) -> AttemptResult:
        """What it costs counts in the store that is thrown away."""
        result, prices, rate = await super().attempt(call), self.plan.prices, self.plan.rate(call.step)
        assert call.step.skill is not None
        reserved = call.step.skill.estimate(call.parameters, prices)
        self.money.spend(rate.model, settle(rate, prices, reserved, classify(result.facts), result.facts).exact)
        return result

    def no_money_left(self, trace: TraceFold, /) -> str | None:
        """The same that the gate asks before the first attempt, of the day and the model."""
        model = self.plan.rate(self.plan.step(trace.step_index)).model
        day, on_model = self.money.outside_spent(model)
        decision = check_ledger(self.money.policy, reserved_by(trace), day=day, model=model, model_spent=on_model)
        return None if decision else decision.reason

    async def failure(self, call: AttemptCall) -> SkillError | None:
        return await super().failure(call) or (self.dearest_failure(call) if self.failing else None)

    def dearest_failure(self, call: AttemptCall) -> SkillError | None:
        """Of those after which the call is sent again, the one that is charged most; None where there is none."""
        step, parameters = call.step, call.parameters
        if call.attempt >= step.retry.max_retries:
            return None
        rate, prices = self.plan.rate(step), self.plan.prices
        retried = (SkillError.of(code) for code in sorted(step.retry.retryable_codes) if not code.startswith("OK"))
        again = (error for error in retried if may_be_repeated(step, parameters, error))
        return max(again, key=lambda error: settle(rate, prices, 1, error.code, facts_of(error)), default=None)


def may_be_repeated(step: PlannedStep, parameters: Mapping[str, object], error: SkillError) -> bool:
    """Whether a call that failed so may be sent again."""
    assert step.skill is not None
    meta = step.skill.metadata
    return may_repeat(
        tool_class=step.tool_class(parameters),
        honours_key=meta.honours_key,
        repeatable=meta.tool_class is None and meta.idempotent,
        code=error.code,
        facts=facts_of(error),
    )
