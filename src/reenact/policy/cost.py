"""Prices and costs, exactly. Money is integers of a picodollar (10^-12 $); cents are a ceiling, once per step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec

from reenact.contracts.plan_rules import PinnedPrices, PriceList
from reenact.errors import PolicyInputError, UnknownPrice

PICODOLLARS_PER_CENT: Final = 10**10
_PICODOLLARS_PER_TOKEN_AT_ONE_DOLLAR_PER_MILLION: Final = 10**6
_PRICE: Final = re.compile(r"0|[1-9][0-9]{0,17}")


class ModelPrice(msgspec.Struct, frozen=True):
    """Picodollars per token. A price in dollars per million tokens with six decimals is exact in them."""

    input: int
    output: int


class PriceTable(msgspec.Struct, frozen=True):
    """The prices that hold for a run. A model that is not in it has no price, which is not a price of zero."""

    version: str
    models: dict[str, ModelPrice]

    def price(self, model: str) -> ModelPrice:
        """The price of exactly this model; UnknownPrice if the table has none."""
        found = self.models.get(model)
        if found is None:
            raise UnknownPrice(
                f"no price is known for the model {model!r}; add it to the plan's prices (context.prices)", model=model
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """As it is pinned in a plan: picodollars per token as decimal strings."""
        models = {
            model: {"input": str(price.input), "output": str(price.output)} for model, price in self.models.items()
        }
        return {"models": models, "version": self.version}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> PriceTable:
        """Read what `to_dict` wrote; PolicyInputError for anything else."""
        unknown = set(table) - {"models", "version"}
        if unknown:
            raise PolicyInputError(f"prices: no field {min(map(str, unknown))!r}; it has models and version")
        models, version = table.get("models"), table.get("version", "")
        if not isinstance(models, Mapping) or not isinstance(version, str):
            raise PolicyInputError("prices: needs models, an object, and a version, a string")
        return cls(version, {_model_name(model): _model_price(model, price) for model, price in models.items()})

    @classmethod
    def of(cls, prices: PinnedPrices | PriceList) -> PriceTable:
        """The table that a plan carries: it was checked when the plan was read."""
        rows = prices.models.items()
        return cls(prices.version, {name: ModelPrice(int(row.input), int(row.output)) for name, row in rows})

    def extended(self, more: Mapping[str, Any] | PriceTable | PriceList | None) -> PriceTable:
        """This table with the prices of `more` going before its own."""
        if more is None:
            return self
        if isinstance(more, PriceList):
            more = PriceTable.of(more)
        other = more if isinstance(more, PriceTable) else PriceTable.from_dict(more)
        return PriceTable(other.version or self.version, {**self.models, **other.models})


def _dollars(input_per_million: str, output_per_million: str) -> ModelPrice:
    scale = _PICODOLLARS_PER_TOKEN_AT_ONE_DOLLAR_PER_MILLION
    return ModelPrice(int(Decimal(input_per_million) * scale), int(Decimal(output_per_million) * scale))


DEFAULT_PRICES: Final = PriceTable(
    "2025-06",
    {
        "stub": ModelPrice(0, 0),
        "claude-3-haiku-20240307": _dollars("0.25", "1.25"),
        "claude-3-5-haiku-20241022": _dollars("0.80", "4"),
        "claude-3-7-sonnet-20250219": _dollars("3", "15"),
        "claude-sonnet-4-20250514": _dollars("3", "15"),
        "claude-opus-4-20250514": _dollars("15", "75"),
        "gpt-4o": _dollars("2.50", "10"),
        "gpt-4o-mini": _dollars("0.15", "0.60"),
        "gpt-4.1": _dollars("2", "8"),
        "gpt-4.1-mini": _dollars("0.40", "1.60"),
        "gpt-4.1-nano": _dollars("0.10", "0.40"),
        "o3-mini": _dollars("1.10", "4.40"),
    },
)
"""A few list prices, and the stub model, which costs nothing."""


def calculate_cost(
    *,
    skill_id: str,
    model: str | None = None,
    input_tokens: int = 0,
    output_tokens: int = 0,
    prices: PriceTable | Mapping[str, Any] | None = None,
) -> int:
    """Cents for the tokens of one call, rounded up once; 0 when no priced token was billed.

    UnknownPrice where tokens were billed by a model that has no price in `prices` (default: the built-in table).
    """
    if model is None:
        if _tokens(input_tokens) or _tokens(output_tokens):
            raise UnknownPrice(f"{skill_id} used tokens of a model that is not named; pass model=", model="")
        return 0
    return cents(cost_exact(model, input_tokens, output_tokens, prices))


def cost_exact(
    model: str, input_tokens: int, output_tokens: int, prices: PriceTable | Mapping[str, Any] | None = None
) -> int:
    """Picodollars for the tokens of one call to `model`."""
    if _tokens(input_tokens) == 0 and _tokens(output_tokens) == 0:
        return 0
    if prices is None:
        prices = DEFAULT_PRICES
    table = prices if isinstance(prices, PriceTable) else PriceTable.from_dict(prices)
    price = table.price(model)
    return input_tokens * price.input + output_tokens * price.output


def cents(exact: int) -> int:
    """Picodollars as cents, rounded up."""
    return -(-exact // PICODOLLARS_PER_CENT)


def dollars(exact: int) -> str:
    """Picodollars as dollars, exactly: `$0.03`, `$0.0000125`."""
    whole, rest = divmod(exact, 100 * PICODOLLARS_PER_CENT)
    digits = f"{rest:012d}".rstrip("0")
    return f"${whole}.{digits:0<2}" if digits else f"${whole}"


def price_from_genai(model: str, *, at_ms: int | None = None) -> dict[str, str]:
    """The list price of `model` from the `genai-prices` package at `at_ms` (default: now), as a row of a price table.

    Only for pinning: afterwards the plan's own table holds. UnknownPrice where the package is not installed, does not
    know the model, or knows no single price for it.
    """
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        raise UnknownPrice("list prices need the package genai-prices: install reenact[prices]", model=model) from None
    moment = None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC)

    def total(**tokens: int) -> Decimal:
        return Decimal(calc_price(Usage(**tokens), model, genai_request_timestamp=moment).total_price) * 10**12

    row: dict[str, str] = {}
    try:
        for side in ("input", "output"):
            one = total(**{"input_tokens": 0, "output_tokens": 0, f"{side}_tokens": 1})
            many = total(**{"input_tokens": 10**7, "output_tokens": 0, f"{side}_tokens": 10**7})
            base = total(input_tokens=10**7, output_tokens=0) if side == "output" else 0
            if many - base != one * 10**7 or one != int(one):
                raise UnknownPrice(f"{model!r} has no single price per token; name one in context.prices", model=model)
            row[side] = str(int(one))
    except LookupError:
        raise UnknownPrice(
            f"genai-prices knows no model {model!r}; name its price in context.prices", model=model
        ) from None
    return row


def _model_name(model: object) -> str:
    if not isinstance(model, str) or not model:
        raise PolicyInputError("prices: a model is named by a string")
    return model


def _model_price(model: str, price: object) -> ModelPrice:
    if not isinstance(price, Mapping) or set(price) != {"input", "output"}:
        raise PolicyInputError(f"prices: {model!r} needs exactly input and output")
    for side in ("input", "output"):
        if not isinstance(price[side], str) or _PRICE.fullmatch(price[side]) is None:
            raise PolicyInputError(f"prices: {model!r}: {side} is a decimal string of whole picodollars per token")
    return ModelPrice(int(price["input"]), int(price["output"]))


def _tokens(count: object) -> int:
    if type(count) is not int or count < 0:
        raise PolicyInputError("a token count is a whole number from 0")
    return count
