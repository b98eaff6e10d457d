"""Budgets: whether there is money left. `>` denies, `==` passes; what was decided on stands in the decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from reenact.contracts.plan import Budget
from reenact.errors import PolicyInputError
from reenact.policy.cost import PICODOLLARS_PER_CENT

LimitName = Literal["run", "step", "day", "model"]


class BudgetPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Limits in cents; None is no limit. `hard` denies what goes over a limit, `soft` warns and lets it go on."""

    mode: Literal["hard", "soft"] = "hard"
    per_run_cents: int | None = None
    per_step_cents: int | None = None
    per_day_cents: int | None = None
    per_model_cents: dict[str, int] = {}
    alert_percent: int = 80

    def __post_init__(self) -> None:
        if self.mode not in ("hard", "soft"):
            raise PolicyInputError("budget: mode is hard or soft")
        if not isinstance(self.per_model_cents, Mapping):
            raise PolicyInputError("budget: per_model_cents is an object of cents by model")
        limits = [self.per_run_cents, self.per_step_cents, self.per_day_cents, *self.per_model_cents.values()]
        if any(limit is not None and (type(limit) is not int or limit < 0) for limit in limits):
            raise PolicyInputError("budget: a limit is a whole number of cents from 0")
        if type(self.alert_percent) is not int or not 1 <= self.alert_percent <= 100:
            raise PolicyInputError("budget: alert_percent is a whole number from 1 to 100")

    @property
    def reaches_beyond_the_run(self) -> bool:
        """There is a limit that an agent's other runs count against."""
        return self.per_day_cents is not None or bool(self.per_model_cents)

    def exact_limits(self, model: str) -> tuple[int | None, int | None]:
        """Those of a day and of a model, in picodollars."""
        limits = (self.per_day_cents, self.per_model_cents.get(model))
        day, on_model = (None if cents is None else cents * PICODOLLARS_PER_CENT for cents in limits)
        return day, on_model

    @property
    def has_no_limit(self) -> bool:
        """Then whatever is required may be reserved, and nothing needs to be counted for it."""
        limits = (self.per_run_cents, self.per_step_cents, self.per_day_cents)
        return limits == (None, None, None) and not self.per_model_cents


def budget_policy(budget_cents: int | None, budget: Budget | Mapping[str, Any] | None) -> BudgetPolicy:
    """The policy that a plan's `context.budget_cents` and `context.budget` make up."""
    fields: dict[str, Any] = {}
    if isinstance(budget, Budget):
        fields = msgspec.structs.asdict(budget)
    elif budget is not None:
        fields = dict(budget)
    if fields.get("per_model_cents", {}) is None:
        del fields["per_model_cents"]
    if budget_cents is not None:
        fields["per_run_cents"] = budget_cents
    unknown = set(fields) - set(BudgetPolicy.__struct_fields__)
    if unknown:
        known = ", ".join(BudgetPolicy.__struct_fields__)
        raise PolicyInputError(f"budget: no field {min(map(str, unknown))!r}; it has {known}")
    return BudgetPolicy(**fields)


class BudgetDecision(msgspec.Struct, frozen=True):
    """What `check_budget` decided, in cents. False in a condition when denied."""

    allowed: bool
    reason: str
    limit: int | None
    spent: int
    required: int
    warning: bool = False  # over a limit, and let through because the budget is soft

    def __bool__(self) -> bool:
        return self.allowed


def check_budget(
    remaining_cents: int | None,
    required_cents: int,
    budget_policy: BudgetPolicy | Budget | Mapping[str, Any] | None = None,
) -> BudgetDecision:
    """Whether `required_cents` may be spent out of `remaining_cents` (None: without limit).

    The policy adds the limit of a step and says whether going over is denied; its other limits need a ledger.
    """
    policy = _policy(budget_policy)
    required = _amount("required_cents", required_cents)
    if remaining_cents is not None and type(remaining_cents) is not int:
        raise PolicyInputError("budget: remaining_cents is a whole number of cents, or None")
    run, step = policy.per_run_cents, policy.per_step_cents
    spent = max(run - remaining_cents, 0) if run is not None and remaining_cents is not None else 0
    limit = run if run is not None else remaining_cents
    over: str | None = None
    if remaining_cents is not None and required > remaining_cents:
        over = f"{required} cents needed, {max(remaining_cents, 0)} left in the run's budget"
    elif step is not None and required > step:
        over, limit, spent = f"{required} cents needed, a step may cost {step}", step, 0
    if over is None:
        return BudgetDecision(allowed=True, reason="within budget", limit=limit, spent=spent, required=required)
    soft = policy.mode == "soft"
    return BudgetDecision(allowed=soft, reason=over, limit=limit, spent=spent, required=required, warning=soft)


class Spent(NamedTuple):
    """Picodollars that a limit has to count already: settled, and reserved by attempts that have not ended."""

    settled: int = 0
    reserved: int = 0

    @property
    def total(self) -> int:
        return self.settled + self.reserved


NOTHING: Final = Spent()
NO_AMOUNTS: Final[dict[str, str | None]] = dict.fromkeys(
    ("limit_exact", "spent_exact", "required_exact", "day_spent_exact", "model_spent_exact")
)
"""What a decision's `meta` says of money where nothing is limited."""


class LedgerDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What `check_ledger` decided, in picodollars. False in a condition when denied.

    `limit_exact` and `spent_exact` are those of the limit that refused, or of the run's when none did; what was spent
    today and on the model stands apart, since a replay is served it. None where there is no such limit.
    """

    allowed: bool
    refused_by: LimitName | None  # the first limit that is passed, also when the budget is soft
    reason: str
    required_exact: int
    limit_exact: int | None
    spent_exact: int | None
    day_spent_exact: int | None
    model_spent_exact: int | None
    alert: bool  # at or past the alert threshold of some limit, this call included
    warning: bool  # over a limit, and let through because the budget is soft

    def __bool__(self) -> bool:
        return self.allowed

    def meta(self) -> dict[str, str | None]:
        """The five exact amounts as they stand in a decision's `meta`: decimal strings, null where unused."""
        amounts = {name: getattr(self, name) for name in NO_AMOUNTS}
        return {name: None if amount is None else str(amount) for name, amount in amounts.items()}


class _Limit(NamedTuple):
    name: LimitName
    exact: int
    spent: int

    def is_passed_by(self, required: int) -> bool:
        return self.spent + required > self.exact

    def alerts_at(self, required: int, percent: int) -> bool:
        total = self.spent + required
        return total > 0 and total * 100 >= self.exact * percent


def check_ledger(
    policy: BudgetPolicy,
    required_exact: int,
    *,
    run: Spent = NOTHING,
    step: Spent = NOTHING,
    day: Spent = NOTHING,
    model: str | None = None,
    model_spent: Spent = NOTHING,
) -> LedgerDecision:
    """Whether `required_exact` picodollars may be reserved, given what each limit has to count already.

    Limits are asked in the order run, step, day, model, and the first that is passed refuses.
    """
    required = _amount("required_exact", required_exact)
    limits = {limit.name: limit for limit in _limits(policy, run, step, day, model, model_spent)}
    refusing = next((limit for limit in limits.values() if limit.is_passed_by(required)), None)
    shown = refusing or limits.get("run")
    soft = policy.mode == "soft"
    return LedgerDecision(
        allowed=refusing is None or soft,
        refused_by=refusing.name if refusing else None,
        reason=_reason(refusing, required) if refusing else "within budget",
        required_exact=required,
        limit_exact=shown.exact if shown else None,
        spent_exact=shown.spent if shown else None,
        day_spent_exact=limits["day"].spent if "day" in limits else None,
        model_spent_exact=limits["model"].spent if "model" in limits else None,
        alert=any(limit.alerts_at(required, policy.alert_percent) for limit in limits.values()),
        warning=refusing is not None and soft,
    )


def over_limit(name: LimitName, limit_exact: int | None, spent_exact: int, required_exact: int) -> str | None:
    """Why `required_exact` more may not be reserved, or None where it may."""
    if limit_exact is None:
        return None
    limit = _Limit(name, limit_exact, spent_exact)
    return _reason(limit, required_exact) if limit.is_passed_by(required_exact) else None


def _limits(
    policy: BudgetPolicy, run: Spent, step: Spent, day: Spent, model: str | None, model_spent: Spent
) -> Iterator[_Limit]:
    rows: tuple[tuple[LimitName, int | None, Spent], ...] = (
        ("run", policy.per_run_cents, run),
        ("step", policy.per_step_cents, step),
        ("day", policy.per_day_cents, day),
        ("model", policy.per_model_cents.get(model) if model is not None else None, model_spent),
    )
    for name, limit_cents, spent in rows:
        if limit_cents is not None:
            yield _Limit(name, limit_cents * PICODOLLARS_PER_CENT, _amount(name, spent.total))


def _reason(limit: _Limit, required: int) -> str:
    left = max(limit.exact - limit.spent, 0)
    return f"{_in_cents(required)} cents needed, {_in_cents(left)} left in the budget of the {limit.name}"


def _in_cents(exact: int) -> str:
    """Exact cents as a decimal, without an exponent and without trailing zeros."""
    whole, rest = divmod(exact, PICODOLLARS_PER_CENT)
    return f"{whole}.{rest:010d}".rstrip("0").rstrip(".")


def _policy(given: BudgetPolicy | Budget | Mapping[str, Any] | None) -> BudgetPolicy:
    if isinstance(given, BudgetPolicy):
        return given
    return budget_policy(None, given)


def _amount(name: str, value: object) -> int:
    if type(value) is not int or value < 0:
        raise PolicyInputError(f"budget: {name} is a whole number from 0")
    return value
