"""What breaks determinism, found and named before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct, to_builtins

from reenact.contracts.plan import Plan, plan_from_document
from reenact.contracts.stability import PLAN_FIELDS
from reenact.policy.budget import budget_policy
from reenact.policy.retry import merge_retry, policy_to_dict
from reenact.policy.taxonomy import TAXONOMY_VERSION
from reenact.skills.drift import drift
from reenact.skills.registry import Registry
from reenact.values.canonical import canonicalize
from reenact.values.digest import sha256_hex

BreakerKind = Literal[
    "skill_missing", "skill_changed", "taxonomy", "retry_policy", "budget_policy", "price_table", "plan"
]


class Breaker(Struct, frozen=True, kw_only=True):
    """One thing that is not as it was when the run was recorded."""

    kind: BreakerKind
    where: str
    recorded: str
    found: str
    message: str


def find_breakers(
    recorded: dict[str, object], candidate: dict[str, object], registry: Registry | None
) -> list[Breaker]:
    """Everything in which running `candidate` today is not running what was `recorded`.

    Without a registry no skill is asked for: a replay that only serves needs none.
    """
    plan, _ = plan_from_document(recorded)
    other, _ = plan_from_document(candidate)
    return [
        *([] if registry is None else skill_breakers(plan, registry)),
        *taxonomy_breakers(plan, other),
        *retry_breakers(plan, other),
        *budget_breakers(plan, other),
        *price_breakers(plan, other),
        *plan_breakers(recorded, candidate),
    ]


def skill_breakers(plan: Plan, registry: Registry) -> Iterator[Breaker]:
    assert plan.context.pins is not None
    for item in drift(plan.context.pins.skills, registry):
        yield Breaker(
            kind="skill_missing" if item.found is None else "skill_changed",
            where=item.skill,
            recorded=item.pinned[:16],
            found="none" if item.found is None else item.found[:16],
            message=item.message,
        )


def taxonomy_breakers(plan: Plan, other: Plan) -> Iterator[Breaker]:
    assert plan.context.pins is not None
    pinned = plan.context.pins.taxonomy
    found = TAXONOMY_VERSION if other.context.pins is None else other.context.pins.taxonomy
    for version in dict.fromkeys((found, TAXONOMY_VERSION)):
        if version != pinned:
            yield Breaker(
                kind="taxonomy", where="pins.taxonomy", recorded=pinned, found=version,
                message=f"the run was recorded under error taxonomy {pinned}, this is {version}",
            )  # fmt: skip


def retry_breakers(plan: Plan, other: Plan) -> Iterator[Breaker]:
    theirs = dict(step_policies(other))
    for step, policy in step_policies(plan):
        found = theirs.get(step)
        if found is not None and found != policy:
            changed = sorted(key for key in policy if policy[key] != found[key])
            yield Breaker(
                kind="retry_policy", where=f"step {step}", recorded=short(policy), found=short(found),
                message=f"step {step} has another retry policy: {', '.join(changed)}",
            )  # fmt: skip


def step_policies(plan: Plan) -> Iterator[tuple[str, dict[str, object]]]:
    pins = plan.context.pins
    assert pins is not None
    for step in plan.steps:
        pinned = pins.retry.get(f"{step.skill_id}@{step.skill_version}") or pins.retry["default"]
        merged = merge_retry(step.retry, plan.context.retry, pinned)
        yield step.step_id, policy_to_dict(merged)


def budget_breakers(plan: Plan, other: Plan) -> Iterator[Breaker]:
    ours = budget_policy(plan.context.budget_cents, plan.context.budget)
    theirs = budget_policy(other.context.budget_cents, other.context.budget)
    for field in ours.__struct_fields__:
        recorded, found = getattr(ours, field), getattr(theirs, field)
        if recorded != found:
            yield Breaker(
                kind="budget_policy", where=f"context.{field}", recorded=str(recorded), found=str(found),
                message=f"the budget's {field} is {found}, recorded was {recorded}",
            )  # fmt: skip


def price_breakers(plan: Plan, other: Plan) -> Iterator[Breaker]:
    assert plan.context.pins is not None
    assert other.context.pins is not None
    ours, theirs = to_builtins(plan.context.pins.prices), to_builtins(other.context.pins.prices)
    for table in ("models", "skills"):
        left, right = ours[table], theirs[table]
        for name in sorted({*left, *right}):
            if left.get(name) != right.get(name):
                yield Breaker(
                    kind="price_table", where=f"pins.prices.{table}.{name}", recorded=short(left.get(name)),
                    found=short(right.get(name)), message=f"another price for {name}",
                )  # fmt: skip


def plan_breakers(recorded: dict[str, object], candidate: dict[str, object]) -> Iterator[Breaker]:
    """The fields that the plan's stability table calls deterministic. Budgets have a kind of their own."""
    for row in PLAN_FIELDS:
        if row.deterministic != "YES" or row.field == "context.budget_cents":
            continue
        for where, left, right in pairs(recorded, candidate, row.field):
            if canonicalize(left) != canonicalize(right):
                yield Breaker(
                    kind="plan", where=where, recorded=short(left), found=short(right),
                    message=f"the plan's {where} is not the recorded one",
                )  # fmt: skip


def pairs(left: object, right: object, path: str) -> list[tuple[str, object, object]]:
    """Both plans' values under a dotted path; `[]` goes through the list of steps by position."""
    head, _, rest = path.partition("[].")
    if rest:
        steps = [as_list(as_mapping(side).get(head)) for side in (left, right)]
        found = []
        for index in range(max(len(steps[0]), len(steps[1]))):
            items = [side[index] if index < len(side) else None for side in steps]
            found.append((f"{head}[{index}].{rest}", value_at(items[0], rest), value_at(items[1], rest)))
        return found
    return [(path, value_at(left, path), value_at(right, path))]


def value_at(value: object, path: str) -> object:
    for name in path.split("."):
        value = as_mapping(value).get(name)
    return value


def as_mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def short(value: object) -> str:
    return sha256_hex(canonicalize(value))[:16]
