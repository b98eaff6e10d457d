"""The gates in their order: validate → permission → duplicate → budget → supervisor. The first no counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.policy.budget import NO_AMOUNTS
from reenact.runtime.gates import budget, duplicate, permission, validate
from reenact.runtime.gates.verdict import Refusal, Verdict, with_amounts

if TYPE_CHECKING:
    from reenact.runtime.call.call import Call


async def ask(call: Call) -> Verdict:
    """What the gates come to about a call in PENDING."""
    gates, given_up = call.run.gates, None if call.is_live else call.run.source.given_up(call.step)
    refusal = given_up or validate.check(call) or permission.check(call)
    if refusal is None and gates.external is not None:
        refusal = await gates.external.check(call)
    if refusal is None and call.gate is not None:
        refusal = await duplicate.check(call, call.gate)
    if refusal is not None:
        return refusal
    required = budget.estimate(call)
    if isinstance(required, Refusal):
        return required
    if call.run.money.has_no_limit:
        verdict = await gates.supervision.decide(call)
        return with_amounts(verdict, {**NO_AMOUNTS, "required_exact": str(required)})
    return await budget.decide(call, required)
