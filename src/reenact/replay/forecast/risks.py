"""What a person may want to know of a step before saying yes to a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from reenact.contracts.references import has_references
from reenact.errors import SkillError
from reenact.replay.forecast.dry_plan import DryPlan, may_be_repeated
from reenact.runtime.plans.steps import PlannedStep
from reenact.skills.estimate import PROMPT_FIELDS
from reenact.skills.schema.paths import leads_somewhere

RiskKind = Literal["writes", "high_risk", "in_doubt", "no_key", "not_retried", "reference", "cost"]


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person may want to know before saying yes."""

    step_id: str
    kind: RiskKind
    message: str


def risks_of_references(step: PlannedStep, plan: DryPlan) -> Iterator[Risk]:
    """References to what an earlier skill does not declare to return."""
    for place, path, source, rest, _ in plan.references(step):
        meta = None if source is None or source.skill is None else source.skill.metadata
        if meta is not None and not leads_somewhere(meta.output_schema, rest):
            yield risk(
                step, "reference", f"{place}: {{{{{path}}}}} is nothing that {meta.reference} declares to return"
            )


def risks_of_call(step: PlannedStep, supervisor: str) -> Iterator[Risk]:
    """Of a step that is made: what it writes, what a crash makes of it, what it may cost beyond the forecast."""
    if step.risk_level(step.parameters) != "READ":
        yield from risks_of_write(step, supervisor)
    assert step.skill is not None
    prompt = [step.parameters.get(name) for name in PROMPT_FIELDS]
    if step.skill.metadata.cost_model == "tokens" and has_references(prompt):
        yield risk(step, "cost", "its prompt holds what an earlier step returns: it may cost more than is shown here")


def risks_of_write(step: PlannedStep, supervisor: str) -> Iterator[Risk]:
    assert step.skill is not None
    meta = step.skill.metadata
    effects = f" ({', '.join(meta.side_effects)})" if meta.side_effects else ""
    asked = ", a person is asked first" if supervisor == "ask" else ""
    if step.risk_level(step.parameters) == "HIGH_RISK":
        yield risk(step, "high_risk", f"{step.reference} is of high risk{effects}{asked}")
    else:
        yield risk(step, "writes", f"{step.reference} writes{effects}{asked}")
    if meta.in_doubt == "redispatch" and not meta.honours_key:
        yield risk(step, "in_doubt", "after a crash it is sent again, and nothing says that its tool notices")
    elif meta.in_doubt == "hold":
        yield risk(step, "in_doubt", "where its answer is lost the run is held for a person")
    if step.caller_key is None and not meta.honours_key:
        yield risk(step, "no_key", "it has no idempotency_key: running the plan again does it again")
    if not may_be_repeated(step, step.parameters, SkillError.of("ERR_TIMEOUT")):
        yield risk(step, "not_retried", "once something was sent, a failure is not retried")


def risk(step: PlannedStep, kind: RiskKind, message: str) -> Risk:
    return Risk(step_id=step.step_id, kind=kind, message=message)
