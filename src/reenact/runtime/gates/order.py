"""The gates in their order: validate → permission → duplicate → budget → supervisor. The first no counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.errors import UnknownPrice
from reenact.policy.budget import NO_AMOUNTS
from reenact.runtime.gates import budget, duplicate, permission, validate
from reenact.runtime.gates.verdict import Approval, Refusal, Verdict

if TYPE_CHECKING:
    from reenact.runtime.call.call import Call


async def ask(call: Call) -> Verdict:
    """What the gates come to about a call in PENDING."""
    gates, given_up = call.run.gates, None if call.is_live else call.run.source.given_up(call.step)
    refusal = given_up or validate.check(call)
    if refusal is None and gates.limits_agent:
        refusal = permission.check(call)
    if refusal is None and gates.external is not None:
        refusal = await gates.external.check(call)
    if refusal is None and call.gate is not None and call.step.touches:
        refusal = await duplicate.check(call, call.gate)
    if refusal is not None:
        return refusal
    assert call.step.skill is not None
    try:
        required = call.step.skill.estimate(call.unescaped(), call.run.plan.prices)
    except UnknownPrice as error:
        return Refusal("budget", "ERR_LLM_INVALID_MODEL", str(error), {"model": error.model})
    if call.run.money.has_no_limit:
        verdict, amounts = await gates.supervision.decide(call), {**NO_AMOUNTS, "required_exact": str(required)}
    else:
        verdict, amounts = await budget.decide(call, required)
    # An approval says what it was decided on.
    return Approval(verdict.by, vote=verdict.vote, exact=amounts) if isinstance(verdict, Approval) else verdict
