"""Unit: cost calculation. Same cost for same params."""

from __future__ import annotations

from reenact import calculate_cost, check_budget


def test_the_same_tokens_cost_the_same_and_are_rounded_up_once() -> None:
    costs = {
        calculate_cost(
            skill_id="llm_invoke", model="claude-sonnet-4-20250514", input_tokens=1000, output_tokens=500
        )
        for _ in range(100)
    }  # fmt: skip

    assert costs == {2}


def test_a_sum_that_floats_would_overcharge_is_exact() -> None:
    cost = calculate_cost(skill_id="llm_invoke", model="claude-sonnet-4-20250514", input_tokens=70000)

    assert cost == 21


def test_the_last_cent_may_be_spent_and_no_more() -> None:
    assert check_budget(remaining_cents=50, required_cents=50, budget_policy=None)
    assert not check_budget(remaining_cents=50, required_cents=51, budget_policy=None)
