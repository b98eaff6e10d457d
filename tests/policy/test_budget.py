"""Whether there is money left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.contracts.plan import Budget
from reenact.errors import PolicyInputError
from reenact.policy.budget import BudgetPolicy, LedgerDecision, Spent, budget_policy, check_budget, check_ledger

CENT = 10**10


@pytest.mark.parametrize(
    ("remaining", "required", "allowed"),
    [
        (100, 50, True),
        (50, 50, True),
        (49, 50, False),
        (0, 0, True),
        (0, 1, False),
        (-5, 0, False),
        (None, 10**9, True),
    ],
)
def test_more_than_is_left_is_denied_and_all_of_it_passes(remaining: int | None, required: int, allowed: bool) -> None:
    decision = check_budget(remaining_cents=remaining, required_cents=required, budget_policy=None)
    assert bool(decision) is decision.allowed is allowed
    assert decision.required == required
    assert not decision.warning


def test_a_decision_says_what_it_was_made_of() -> None:
    decision = check_budget(40, 50, BudgetPolicy(per_run_cents=100))
    assert not decision
    assert (decision.limit, decision.spent, decision.required) == (100, 60, 50)
    assert decision.reason == "50 cents needed, 40 left in the run's budget"
    assert check_budget(40, 40).reason == "within budget"


def test_a_soft_budget_warns_and_goes_on() -> None:
    decision = check_budget(40, 50, {"mode": "soft"})
    assert decision
    assert decision.warning
    assert "40 left" in decision.reason


@pytest.mark.parametrize("policy", [BudgetPolicy(per_step_cents=10), Budget(per_step_cents=10), {"per_step_cents": 10}])
def test_a_step_has_a_limit_of_its_own(policy: BudgetPolicy | Budget | dict[str, int]) -> None:
    assert check_budget(100, 10, policy)
    decision = check_budget(100, 11, policy)
    assert not decision
    assert (decision.limit, decision.spent, decision.required) == (10, 0, 11)
    assert not check_budget(None, 11, policy)


@pytest.mark.parametrize(
    ("remaining", "required"), [(1, -1), (1, 1.5), (1, True), ("1", 1), (1.0, 1), (True, 1), (1, None)]
)
def test_amounts_are_whole_numbers(remaining: object, required: object) -> None:
    with pytest.raises(PolicyInputError, match="budget"):
        check_budget(remaining, required)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {"mode": "strict"},
        {"per_run_cents": -1},
        {"per_step_cents": 1.0},
        {"per_day_cents": True},
        {"per_model_cents": {"m": -1}},
        {"per_model_cents": [1]},
        {"alert_percent": 0},
        {"alert_percent": 101},
        {"per_hour_cents": 1},
    ],
)
def test_policies_that_make_no_sense_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(PolicyInputError, match="budget"):
        budget_policy(None, fields)


def test_a_plan_s_budget_becomes_a_policy() -> None:
    assert budget_policy(1000, None) == BudgetPolicy(per_run_cents=1000)
    assert budget_policy(None, None) == BudgetPolicy()
    budget = Budget(mode="soft", per_day_cents=5, per_model_cents={"m": 7}, alert_percent=50)
    assert budget_policy(1, budget) == BudgetPolicy(
        mode="soft", per_run_cents=1, per_day_cents=5, per_model_cents={"m": 7}, alert_percent=50
    )
    assert budget_policy(None, Budget()) == BudgetPolicy()


def test_without_limits_everything_is_allowed_and_nothing_recorded() -> None:
    decision = check_ledger(BudgetPolicy(), 10**20, run=Spent(5), model="m", model_spent=Spent(5))
    assert decision
    assert (decision.refused_by, decision.alert, decision.warning) == (None, False, False)
    assert decision.meta() == {
        "limit_exact": None,
        "spent_exact": None,
        "required_exact": str(10**20),
        "day_spent_exact": None,
        "model_spent_exact": None,
    }


POLICY = BudgetPolicy(per_run_cents=100, per_step_cents=40, per_day_cents=200, per_model_cents={"m": 150})


@pytest.mark.parametrize(
    ("spent", "refused_by", "limit", "counted"),
    [
        ({"run": Spent(60 * CENT, 1)}, "run", 100, 60 * CENT + 1),
        ({"step": Spent(1)}, "step", 40, 1),
        ({"day": Spent(150 * CENT, 10 * CENT + 1)}, "day", 200, 160 * CENT + 1),
        ({"model": "m", "model_spent": Spent(110 * CENT, 1)}, "model", 150, 110 * CENT + 1),
        ({"run": Spent(100 * CENT), "step": Spent(CENT), "day": Spent(200 * CENT)}, "run", 100, 100 * CENT),
    ],
)
def test_the_limit_that_refuses_is_named_with_its_exact_numbers(
    spent: dict[str, object], refused_by: str, limit: int, counted: int
) -> None:
    decision = check_ledger(POLICY, 40 * CENT, **spent)  # type: ignore[arg-type]
    assert not decision
    assert decision.refused_by == refused_by
    assert (decision.limit_exact, decision.spent_exact) == (limit * CENT, counted)
    assert decision.required_exact == 40 * CENT
    assert decision.reason.endswith(f"left in the budget of the {refused_by}")


def test_exactly_what_is_left_passes_and_a_picodollar_more_does_not() -> None:
    spent = {"run": Spent(30 * CENT, 30 * CENT), "day": Spent(160 * CENT), "model_spent": Spent(110 * CENT)}
    assert check_ledger(POLICY, 40 * CENT, model="m", **spent)  # type: ignore[arg-type]
    denied = check_ledger(POLICY, 40 * CENT + 1, model="m", **spent)  # type: ignore[arg-type]
    assert not denied
    assert denied.reason == "40.0000000001 cents needed, 40 left in the budget of the run"


def test_a_model_without_a_limit_is_not_limited() -> None:
    decision = check_ledger(POLICY, CENT, model="other", model_spent=Spent(10**30))
    assert decision
    assert decision.model_spent_exact is None


def test_day_and_model_are_recorded_also_when_nothing_refused() -> None:
    decision = check_ledger(POLICY, CENT, run=Spent(2, 3), day=Spent(7), model="m", model_spent=Spent(11, 2))
    assert decision.meta() == {
        "limit_exact": str(100 * CENT),
        "spent_exact": "5",
        "required_exact": str(CENT),
        "day_spent_exact": "7",
        "model_spent_exact": "13",
    }


@pytest.mark.parametrize(
    ("spent", "required", "alert"),
    [(0, 80 * CENT, True), (0, 80 * CENT - 1, False), (79 * CENT, CENT, True), (100 * CENT, CENT, True)],
)
def test_the_alert_comes_at_eighty_percent(spent: int, required: int, alert: bool) -> None:
    assert check_ledger(BudgetPolicy(per_run_cents=100), required, run=Spent(spent)).alert is alert


def test_an_empty_budget_that_nobody_uses_gives_no_alert() -> None:
    assert not check_ledger(BudgetPolicy(per_run_cents=0), 0).alert
    assert check_ledger(BudgetPolicy(per_run_cents=0), 0)
    assert check_ledger(BudgetPolicy(per_run_cents=0), 1).alert


def test_a_soft_ledger_warns_names_the_limit_and_goes_on() -> None:
    decision = check_ledger(BudgetPolicy(mode="soft", per_day_cents=1), 2 * CENT)
    assert decision
    assert (decision.warning, decision.refused_by, decision.alert) == (True, "day", True)


amounts = st.builds(Spent, st.integers(0, 10**13), st.integers(0, 10**13))
limits = st.none() | st.integers(0, 3000)


@given(
    st.builds(BudgetPolicy, mode=st.sampled_from(["hard", "soft"]), per_run_cents=limits, per_step_cents=limits,
              per_day_cents=limits, per_model_cents=st.dictionaries(st.just("m"), st.integers(0, 3000))),
    st.integers(0, 10**13), amounts, amounts, amounts, amounts,
)  # fmt: skip
def test_a_call_is_refused_exactly_when_some_limit_would_be_passed(
    policy: BudgetPolicy, required: int, run: Spent, step: Spent, day: Spent, model: Spent
) -> None:
    decision = check_ledger(policy, required, run=run, step=step, day=day, model="m", model_spent=model)
    rows = [
        (policy.per_run_cents, run),
        (policy.per_step_cents, step),
        (policy.per_day_cents, day),
        (policy.per_model_cents.get("m"), model),
    ]
    over = any(limit is not None and sum(spent) + required > limit * CENT for limit, spent in rows)
    assert (decision.refused_by is not None) is over
    assert decision.allowed is (not over or policy.mode == "soft")
    assert decision.warning is (over and policy.mode == "soft")
    assert decision.alert or not over


@given(amounts, st.integers(0, 10**13), st.integers(0, 10**13), st.integers(0, 2000))
def test_what_is_refused_stays_refused_when_more_is_asked(run: Spent, less: int, more: int, limit: int) -> None:
    def ask(required: int) -> LedgerDecision:
        return check_ledger(BudgetPolicy(per_run_cents=limit), required, run=run)

    assert ask(less) or not ask(less + more)
