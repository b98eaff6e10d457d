"""What a call costs, in exact integers."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import PolicyInputError, UnknownPrice
from reenact.policy.cost import (
    DEFAULT_PRICES,
    PICODOLLARS_PER_CENT,
    ModelPrice,
    PriceTable,
    calculate_cost,
    cents,
    cost_exact,
    price_from_genai,
)
from reenact.values.canonical import canonicalize, parse_json

SONNET = "claude-sonnet-4-20250514"


@pytest.mark.parametrize(
    ("input_tokens", "output_tokens", "expected"),
    [(1000, 500, 2), (70_000, 0, 21), (0, 0, 0), (1, 0, 1), (0, 1, 1), (1_000_000, 0, 300), (0, 1_000_000, 1500)],
)
def test_costs_are_rounded_up_once(input_tokens: int, output_tokens: int, expected: int) -> None:
    cost = calculate_cost(skill_id="llm_invoke", model=SONNET, input_tokens=input_tokens, output_tokens=output_tokens)
    assert cost == expected


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_cents_are_the_ceiling_of_prices_in_cents_per_million(input_tokens: int, output_tokens: int) -> None:
    exact = Fraction(input_tokens * 300 + output_tokens * 1500, 1_000_000)
    cost = calculate_cost(skill_id="llm_invoke", model=SONNET, input_tokens=input_tokens, output_tokens=output_tokens)
    assert cost == ceil(exact)
    assert cost_exact(SONNET, input_tokens, output_tokens) == exact * PICODOLLARS_PER_CENT


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), max_size=6))
def test_exact_costs_add_up_where_cents_do_not(calls: list[tuple[int, int]]) -> None:
    total = cost_exact(SONNET, sum(i for i, _ in calls), sum(o for _, o in calls))
    assert sum(cost_exact(SONNET, i, o) for i, o in calls) == total
    assert sum(cents(cost_exact(SONNET, i, o)) for i, o in calls) >= cents(total)


@pytest.mark.parametrize(("exact", "expected"), [(0, 0), (1, 1), (10**10, 1), (10**10 + 1, 2), (10**30, 10**20)])
def test_cents_are_a_ceiling(exact: int, expected: int) -> None:
    assert cents(exact) == expected


def test_an_unknown_price_is_not_zero() -> None:
    with pytest.raises(UnknownPrice, match="no price is known for the model 'nobody'") as caught:
        calculate_cost(skill_id="llm_invoke", model="nobody", input_tokens=1)
    assert caught.value.model == "nobody"
    assert isinstance(caught.value, PolicyInputError)
    with pytest.raises(UnknownPrice, match="not named"):
        calculate_cost(skill_id="llm_invoke", input_tokens=1)


def test_what_used_no_tokens_costs_nothing() -> None:
    assert calculate_cost(skill_id="http_call") == 0
    assert calculate_cost(skill_id="llm_invoke", model="nobody") == 0
    assert calculate_cost(skill_id="llm_invoke", model="stub", input_tokens=5, output_tokens=5) == 0


@pytest.mark.parametrize("tokens", [-1, 1.5, True, "3", None])
def test_token_counts_are_whole_numbers(tokens: object) -> None:
    for side in ("input_tokens", "output_tokens"):
        with pytest.raises(PolicyInputError, match="token count"):
            calculate_cost(skill_id="x", model=SONNET, **{side: tokens})  # type: ignore[arg-type]
        with pytest.raises(PolicyInputError, match="token count"):
            calculate_cost(skill_id="x", **{side: tokens})  # type: ignore[arg-type]


def test_a_plan_may_bring_its_own_prices() -> None:
    prices = {"models": {"mine": {"input": "1", "output": "0"}}, "version": "2030"}
    assert cost_exact("mine", 7, 9, prices) == 7
    assert cost_exact("mine", 7, 9, PriceTable.from_dict(prices)) == 7
    with pytest.raises(UnknownPrice):
        cost_exact(SONNET, 1, 1, prices)
    more = DEFAULT_PRICES.extended(prices)
    assert cost_exact("mine", 7, 9, more) == 7
    assert cost_exact(SONNET, 1, 0, more) == 3_000_000
    assert more.version == "2030"
    assert DEFAULT_PRICES.extended(None) is DEFAULT_PRICES


def test_the_prices_of_a_plan_go_before_the_built_in_ones() -> None:
    cheaper = DEFAULT_PRICES.extended({"models": {SONNET: {"input": "1", "output": "1"}}})
    assert cost_exact(SONNET, 1, 1, cheaper) == 2


def test_a_pinned_table_is_read_back_from_its_canonical_bytes() -> None:
    pinned = parse_json(canonicalize(DEFAULT_PRICES.to_dict()))
    assert PriceTable.from_dict(pinned) == DEFAULT_PRICES  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"models": []},
        {"models": {}, "version": 1},
        {"models": {}, "currency": "EUR"},
        {"models": {"": {"input": "1", "output": "1"}}},
        {"models": {"m": {"input": "1"}}},
        {"models": {"m": {"input": "1", "output": "1", "cache": "1"}}},
        {"models": {"m": {"input": 1, "output": "1"}}},
        {"models": {"m": {"input": "1.5", "output": "1"}}},
        {"models": {"m": {"input": "-1", "output": "1"}}},
        {"models": {"m": {"input": "01", "output": "1"}}},
        {"models": {"m": {"input": "1\n", "output": "1"}}},
        {"models": {"m": {"input": "1e3", "output": "1"}}},
        {"models": {"m": None}},
    ],
)
def test_tables_that_are_none_are_refused(table: dict[str, object]) -> None:
    with pytest.raises(PolicyInputError, match="prices"):
        PriceTable.from_dict(table)


def test_the_built_in_prices_are_the_list_prices() -> None:
    for model, price in DEFAULT_PRICES.models.items():
        if model != "stub":
            row = price_from_genai(model, at_ms=1_750_000_000_000)
            assert PriceTable.from_dict({"models": {model: row}}).models[model] == price, model


def test_a_model_without_a_single_price_is_not_guessed() -> None:
    with pytest.raises(UnknownPrice, match="no single price"):
        price_from_genai("gemini-2.5-pro")
    with pytest.raises(UnknownPrice, match="knows no model"):
        price_from_genai("no-such-model")


def test_prices_are_frozen() -> None:
    with pytest.raises(AttributeError):
        ModelPrice(1, 2).input = 0  # type: ignore[misc]
    assert msgspec.structs.asdict(DEFAULT_PRICES.price("stub")) == {"input": 0, "output": 0}
