"""Plans: ordered steps with pinned skill versions, and the policies that hold for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from reenact.contracts.plan_rules import (
    SKILL_ID,
    VERSION,
    Pins,
    PlanPart,
    PriceList,
    RateLimits,
    RetryRules,
    ShellRules,
)
from reenact.contracts.whole_plan import refuse_absent
from reenact.errors import PlanError
from reenact.values.canonical import canonicalize, parse_json
from reenact.values.digest import sha256_hex
from reenact.values.ids import NO_NUL
from reenact.values.threads import build

Cents = Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)]
Name128 = Annotated[str, Meta(min_length=1, max_length=128)]
STEP_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}\Z")
PLACE = re.compile(r"(?P<lane>main(?:\.[A-Za-z0-9_-]{1,36})*):[1-9][0-9]*\Z")
"""The id of a step in a session with an id: its lane, and its place there."""
SUPERVISOR = re.compile(r"(?:auto|ask|[^\s:.]+(?:\.[^\s:.]+)*:[^\s:.]+)\Z")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?\Z", re.ASCII)
MOST_TRIED = 100
"""So many members are tried to find the one that the decoder complains of; each is another decoding of the plan."""
PIN_AGAIN = "pins are written by `reenact pin`: take context.pins out and pin the plan again"
_OF_SOME_MEMBER = re.compile(r"`(\$[^`]*?)\[\.\.\.\]")
_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


class Step(PlanPart, frozen=True, kw_only=True):
    step_id: str
    skill_id: str
    skill_version: str | None = None
    parameters: dict[str, object] = field(default_factory=dict)
    on_error: Literal["abort", "continue"] | None = None
    retry: RetryRules | None = None
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class Budget(PlanPart, frozen=True, kw_only=True):
    mode: Literal["hard", "soft"] = "hard"
    per_step_cents: Cents | None = None
    per_day_cents: Cents | None = None
    per_model_cents: dict[str, Cents] | None = None
    alert_percent: Annotated[int, Meta(ge=1, le=100)] = 80


class AgentProfile(PlanPart, frozen=True, kw_only=True):
    """What an agent may do at all, whatever its plan says."""

    allowed_skills: list[str] | None = None
    denied_skills: list[str] = field(default_factory=list)
    disallowed_side_effects: list[str] = field(default_factory=list)
    max_external_calls: Annotated[int, Meta(ge=0)] | None = None
    hosts: list[str] | None = None


class Context(PlanPart, frozen=True, kw_only=True):
    budget_cents: Cents | None = None
    allowed_skills: list[str] | None = None
    budget: Budget | None = None
    allow_hosts: list[str] = field(default_factory=list)
    dedupe: bool = False
    supervisor: str = "auto"
    retry: RetryRules | None = None
    on_error: Literal["abort", "continue"] | None = None
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None
    profile: AgentProfile | None = None
    prices: PriceList | None = None
    rate_limits: RateLimits | None = None
    secret_fields: list[str] = field(default_factory=list)
    workspace: str | None = None
    shell: ShellRules | None = None
    tool_registries: list[dict[str, object]] = field(default_factory=list)
    time_limit_ms: Annotated[int, Meta(ge=1, le=2_678_400_000)] | None = None
    issue_number: Annotated[int, Meta(ge=-9_007_199_254_740_991, le=9_007_199_254_740_991)] | None = None
    policy_version: Name128 | None = None
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    pins: Pins | None = None


class Plan(PlanPart, frozen=True, kw_only=True):
    plan_id: Name128
    agent_id: Name128
    goal: str = ""
    created_at: str | None = None
    steps: list[Step]
    context: Context = Context()


def parse_plan(data: bytes | str, *, source: str = "plan") -> tuple[Plan, dict[str, object]]:
    """The plan and the document it was read from. A mistake is a PlanError that names its place."""
    document = parse_json(data, what=source)
    refuse_absent(document, source)
    return plan_from_document(document, source=source)


def plan_from_document(document: object, *, source: str = "plan") -> tuple[Plan, dict[str, object]]:
    if not isinstance(document, dict):
        raise PlanError(f"{source}: a plan is a JSON object with plan_id, agent_id and steps")
    try:
        plan = msgspec.convert(document, Plan)
    except msgspec.ValidationError as error:
        raise PlanError(f"{source}: {explained(str(error), document)}") from None
    check_plan(plan, source)
    return plan, document


def check_plan(plan: Plan, source: str) -> None:
    """Refuse as a whole what no run could follow: bad or repeated ids, pins that contradict each other, a time that is
    none. Everything else is a step's outcome."""
    if plan.created_at is not None and not is_time(plan.created_at):
        raise PlanError(f"{source}: $.created_at: {plan.created_at!r} is not a time like 2026-01-31T12:00:00Z")
    if not SUPERVISOR.match(plan.context.supervisor):
        raise PlanError(
            f"{source}: $.context.supervisor: {plan.context.supervisor!r} is neither auto, ask, nor module:function"
        )
    problem = None if plan.context.pins is None else plan.context.pins.problem()
    if problem is not None:
        raise PlanError(f"{source}: $.context.pins{problem}; {PIN_AGAIN}")
    for place, name in names_in(plan):
        if "\0" in name:
            raise PlanError(f"{source}: {place} {NO_NUL}")
    check_steps(plan, source)


def names_in(plan: Plan) -> Iterator[tuple[str, str]]:
    """What stands in a store as it is, and has no form of its own."""
    yield "$.plan_id", plan.plan_id
    yield "$.agent_id", plan.agent_id
    budget, prices = plan.context.budget, plan.context.prices
    for model in () if budget is None else budget.per_model_cents or ():
        yield "a model in $.context.budget.per_model_cents", model
    for model in () if prices is None else prices.models:
        yield "a model in $.context.prices", model
    for index, step in enumerate(plan.steps):
        if step.idempotency_key is not None:
            yield f"$.steps[{index}].idempotency_key", step.idempotency_key


def check_steps(plan: Plan, source: str) -> None:
    seen: dict[str, int] = {}
    sound: set[tuple[str, str | None]] = set()
    for index, step in enumerate(plan.steps):
        skill = (step.skill_id, step.skill_version)
        if step.step_id not in seen and STEP_ID.match(step.step_id) and (skill in sound or names_a_skill(*skill)):
            seen[step.step_id] = index
            sound.add(skill)
        else:
            raise PlanError(f"{source}: $.steps[{index}].{what_is_wrong(step, seen)}")


def names_a_skill(skill_id: str, version: str | None) -> bool:
    return SKILL_ID.match(skill_id) is not None and (version is None or VERSION.match(version) is not None)


def what_is_wrong(step: Step, seen: dict[str, int]) -> str:
    if not STEP_ID.match(step.step_id):
        return f"step_id: {step.step_id!r} is not 1 to 128 of A-Z a-z 0-9 _ . : -"
    if step.step_id in seen:
        return f"step_id: {step.step_id!r} stands already at $.steps[{seen[step.step_id]}]"
    if not SKILL_ID.match(step.skill_id):
        return f"skill_id: {step.skill_id!r} is not `tool` or `server.tool`, 1 to 128 of A-Z a-z 0-9 _ - ."
    return f"skill_version: {step.skill_version!r} is not a version like 1.2.0"


def is_time(text: str) -> bool:
    """A date and time of ISO 8601 that the calendar has; the offset may be missing."""
    if not TIME.match(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def explained(message: str, document: dict[str, object]) -> str:
    """What the decoder says about a plan, with the member named where it says `[...]`, and what to do about pins."""
    unnamed = _OF_SOME_MEMBER.search(message)
    if unnamed is not None:
        path = unnamed[1].split(".")[1:]
        named_first = islice(members(document, path), MOST_TRIED)
        key = next((key for key in named_first if complaint(only(document, path, key)) == message), None)
        if key is not None:
            named = f".{key}" if _PLAIN_KEY.match(key) else f"[{key!r}]"
            message = message.replace("[...]", named, 1)
    if " - at `$" not in message:
        message += " - at `$`"  # the decoder says nothing of the top level
    return f"{message}; {PIN_AGAIN}" if "`$.context.pins" in message else message


def complaint(document: dict[str, object]) -> str | None:
    try:
        msgspec.convert(document, Plan)
    except msgspec.ValidationError as error:
        return str(error)
    return None


def members(document: object, path: list[str]) -> dict[str, object]:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def only(document: dict[str, object], path: list[str], key: str) -> dict[str, object]:
    """The document in which the object at `path` has one member alone."""
    if not path:
        return {key: document[key]}
    return {**document, path[0]: only(members(document, path[:1]), path[1:], key)}


def plan_hash(document: dict[str, object]) -> str:
    """`sha256:` over the canonical pinned plan without its top-level `created_at`."""
    covered = {key: value for key, value in document.items() if key != "created_at"}
    return "sha256:" + sha256_hex(canonicalize(covered))


build(Plan)
