"""The gates in their order: validate → permission → key → duplicate → budget → supervisor.

The first no counts; and a call that its key answers is decided there, so that nobody is asked about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.errors import UnknownPrice
from reenact.policy.budget import NO_AMOUNTS
from reenact.runtime.gates import budget, duplicate, key, permission, validate
from reenact.runtime.gates.answer import Approval, GateAnswer, Refusal

if TYPE_CHECKING:
    from reenact.runtime.call.call import Call


async def ask(call: Call) -> GateAnswer:
    """What the gates come to about a call in PENDING."""
    gates, given_up = call.run.gates, None if call.is_live else call.run.source.given_up(call.step)
    refusal = given_up or validate.check(call)
    if refusal is None and gates.limits_agent:
        refusal = permission.check(call)
    if refusal is None and gates.external is not None:
        refusal = await gates.external.check(call)
    if refusal is None and call.step.caller_key is not None:
        told = await key.check(call)
        if told is not None:
            return told
    if refusal is None and call.gate is not None and call.step.touches:
        refusal = await duplicate.check(call, call.gate)
    if refusal is not None:
        return refusal
    assert call.step.skill is not None
    parameters = call.parameters if call.plain else call.unescaped()
    try:
        required = call.step.skill.estimate(parameters, call.run.plan.prices)
    except UnknownPrice as error:
        return Refusal("budget", "ERR_LLM_INVALID_MODEL", str(error), {"model": error.model})
    if not call.run.money.has_no_limit:
        answer, amounts = await budget.decide(call, required)
    else:
        fold, amounts = call.run.journal.fold, {**NO_AMOUNTS, "required_exact": str(required)}
        if call.is_live and gates.supervision.is_auto and not (fold.parked or fold.votes):
            return Approval("auto", exact=amounts)
        answer = await gates.supervision.decide(call)
    # An approval says what it was decided on.
    return Approval(answer.by, vote=answer.vote, exact=amounts) if isinstance(answer, Approval) else answer
