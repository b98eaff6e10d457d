"""What an attempt cost, from its facts: the reservation before it, the settlement after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from reenact.contracts.facts import Facts
from reenact.policy.cost import PICODOLLARS_PER_CENT, PriceTable, cost_exact
from reenact.policy.repeat import never_sent


class Tariff(NamedTuple):
    """How one step is priced: a fixed price per attempt, or tokens of a model at the pinned price."""

    fixed_cents: int
    by_tokens: bool
    model: str | None


class Settlement(NamedTuple):
    exact: int
    estimated: bool


def tariff(prices: Mapping[str, object], reference: str, parameters: Mapping[str, object]) -> Tariff:
    """The tariff that a plan's pinned price table gives a skill; its row names the model that a call leaves out."""
    skills = prices.get("skills")
    entry = skills.get(reference) if isinstance(skills, dict) else None
    entry = entry if isinstance(entry, dict) else {}
    cents = entry.get("cost_estimate_cents")
    model = parameters.get("model", entry.get("model"))
    return Tariff(
        fixed_cents=cents if isinstance(cents, int) else 0,
        by_tokens=entry.get("cost_model") == "tokens",
        model=model if isinstance(model, str) else None,
    )


def settle(rate: Tariff, prices: PriceTable, reserved: int, code: str, facts: Facts) -> Settlement:
    """Charge what was billed. Usage that nobody told us is settled at the reservation, and says so."""
    if never_sent(code, facts):
        return Settlement(0, estimated=False)
    if not rate.by_tokens:
        return Settlement(rate.fixed_cents * PICODOLLARS_PER_CENT, estimated=False)
    if facts.usage is not None and rate.model is not None:
        exact = cost_exact(rate.model, facts.usage.input_tokens, facts.usage.output_tokens, prices)
        return Settlement(exact, estimated=False)
    if facts.http_status is not None and facts.http_status >= 400:
        return Settlement(0, estimated=False)  # a provider does not bill what it refused
    return Settlement(reserved, estimated=reserved > 0)
