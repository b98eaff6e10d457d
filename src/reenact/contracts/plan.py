"""Plans: ordered steps with pinned skill versions, and the policies that hold for them."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from reenact.errors import PlanError
from reenact.values.canonical import canonicalize, parse_json
from reenact.values.digest import sha256_hex

Cents = Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)]
Name128 = Annotated[str, Meta(min_length=1, max_length=128)]
STEP_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}\Z")
SKILL_ID = re.compile(r"[a-z0-9_-]{1,64}(\.[a-z0-9_-]{1,64})?\Z")
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?\Z")


class PlanPart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of a plan's parts: unknown fields are refused."""


class Step(PlanPart, frozen=True, kw_only=True):
    step_id: str
    skill_id: str
    skill_version: str | None = None
    parameters: dict[str, object] = {}
    on_error: Literal["abort", "continue"] | None = None
    retry: dict[str, object] | None = None
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
    denied_skills: list[str] = []
    disallowed_side_effects: list[str] = []
    max_external_calls: Annotated[int, Meta(ge=0)] | None = None
    hosts: list[str] | None = None


class Pins(PlanPart, frozen=True, kw_only=True):
    taxonomy: str
    prices: dict[str, object]
    retry: dict[str, object]
    skills: dict[str, str]
    salt: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    side_effects: list[str] | None = None
    """The skills that declare some, `id@version`; pinned where the profile limits external calls."""


class Context(PlanPart, frozen=True, kw_only=True):
    budget_cents: Cents | None = None
    allowed_skills: list[str] | None = None
    budget: Budget | None = None
    allow_hosts: list[str] = []
    dedupe: bool = False
    supervisor: str = "auto"
    retry: dict[str, object] | None = None
    on_error: Literal["abort", "continue"] | None = None
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None
    profile: AgentProfile | None = None
    prices: dict[str, object] | None = None
    rate_limits: dict[str, object] | None = None
    secret_fields: list[str] = []
    workspace: str | None = None
    shell: dict[str, object] | None = None
    tool_registries: list[dict[str, object]] = []
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
    return plan_from_document(document, source=source)


def plan_from_document(document: object, *, source: str = "plan") -> tuple[Plan, dict[str, object]]:
    if not isinstance(document, dict):
        raise PlanError(f"{source}: a plan is a JSON object with plan_id, agent_id and steps")
    try:
        plan = msgspec.convert(document, Plan)
    except msgspec.ValidationError as error:
        raise PlanError(f"{source}: {error}") from None
    check_plan(plan, source)
    return plan, document


def check_plan(plan: Plan, source: str) -> None:
    """Refuse as a whole what no run could follow: bad or repeated ids. Everything else is a step's outcome."""
    seen: dict[str, int] = {}
    for index, step in enumerate(plan.steps):
        where = f"{source}: $.steps[{index}]"
        if not STEP_ID.match(step.step_id):
            raise PlanError(f"{where}.step_id: {step.step_id!r} is not 1 to 128 of A-Z a-z 0-9 _ . : -")
        if step.step_id in seen:
            raise PlanError(f"{where}.step_id: {step.step_id!r} stands already at $.steps[{seen[step.step_id]}]")
        if not SKILL_ID.match(step.skill_id):
            raise PlanError(f"{where}.skill_id: {step.skill_id!r} is not `tool` or `server.tool` in a-z 0-9 _ -")
        if step.skill_version is not None and not VERSION.match(step.skill_version):
            raise PlanError(f"{where}.skill_version: {step.skill_version!r} is not a version like 1.2.0")
        seen[step.step_id] = index


def plan_hash(document: dict[str, object]) -> str:
    """`sha256:` over the canonical pinned plan without its top-level `created_at`."""
    covered = {key: value for key, value in document.items() if key != "created_at"}
    return "sha256:" + sha256_hex(canonicalize(covered))
