"""Settlement: what an attempt cost, from its facts; the reservation before it, the settlement after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from reenact.contracts.facts import Facts
from reenact.contracts.plan_rules import PinnedPrices, SkillPrice
from reenact.policy.cost import PICODOLLARS_PER_CENT, PriceTable, cost_exact
from reenact.policy.repeat import never_sent


class Tariff(NamedTuple):
    """How one step is priced: a fixed price per attempt, or tokens of a model at the pinned price."""

    fixed_cents: int
    by_tokens: bool
    model: str | None


FREE: Final = SkillPrice(cost_estimate_cents=0, cost_model=None)
"""Of a skill that nobody knows: it is refused before it could cost anything."""


REFUSED: Final = frozenset({"ERR_LLM_AUTH_FAILURE", "ERR_LLM_INVALID_MODEL"})
"""No model works for somebody it does not know, and no model that does not exist works at all."""


class Settlement(NamedTuple):
    exact: int
    estimated: bool


def tariff(prices: PinnedPrices, reference: str, parameters: Mapping[str, object]) -> Tariff:
    """The tariff that a plan's pinned price table gives a skill; its row names the model that a call leaves out."""
    return tariff_of(prices.skills.get(reference, FREE), parameters)


def tariff_of(row: SkillPrice, parameters: Mapping[str, object]) -> Tariff:
    model = parameters.get("model", row.model)
    return Tariff(
        fixed_cents=row.cost_estimate_cents,
        by_tokens=row.cost_model == "tokens",
        model=model if isinstance(model, str) else None,
    )


def settle(rate: Tariff, prices: PriceTable, reserved: int, code: str, facts: Facts) -> Settlement:
    """Charge what was billed. Usage that nobody told us is settled at the reservation, and says so."""
    if code != "OK" and (never_sent(code, facts) or code == "ERR_SKILL_DISABLED"):
        return Settlement(0, estimated=False)
    if not rate.by_tokens:
        return Settlement(rate.fixed_cents * PICODOLLARS_PER_CENT, estimated=False)
    if facts.usage is not None and rate.model is not None:
        exact = cost_exact(rate.model, facts.usage.input_tokens, facts.usage.output_tokens, prices)
        return Settlement(exact, estimated=False)
    if (facts.http_status is not None and facts.http_status >= 400) or code in REFUSED:
        return Settlement(0, estimated=False)  # a provider does not bill what it refused
    return Settlement(reserved, estimated=reserved > 0)
