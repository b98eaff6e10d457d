"""From what a caller hands over, a file or a mapping, to a pinned plan: parsed once, checked, pinned once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from reenact.contracts.plan import Plan, parse_plan, plan_from_document
from reenact.contracts.whole_plan import refuse_absent
from reenact.errors import BeyondPolicy, PlanError
from reenact.runtime.plans.pinning import PinnedPlan, pin_plan, refuse_looser_pins
from reenact.runtime.plans.plan_secrets import refuse_secrets
from reenact.runtime.plans.tool_registries import check_registries, with_registries
from reenact.skills.drift import refuse_changed_skills
from reenact.values.bounds import read_file

if TYPE_CHECKING:
    from reenact.runtime.effects.secrets import Secrets
    from reenact.runtime.engine import Engine
    from reenact.runtime.host_policy import HostPolicy
    from reenact.skills.registry import Registry

PlanLike = Mapping[str, object] | str | Path | PinnedPlan


def prepare(engine: Engine, given: PlanLike) -> PinnedPlan:
    """The plan pinned; PlanError where a secret stands in it, or a skill is not what it was pinned with."""
    if isinstance(given, PinnedPlan):
        return given
    if isinstance(given, Mapping):
        return prepare_document(engine, dict(given), source="plan")
    path = Path(given)
    try:
        data = read_file(path)
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror or 'cannot be read'}; name a plan file") from None
    plan, document = parse_plan(data, source=str(path))
    return prepare_plan(engine, plan, document, source=str(path))


def prepare_document(engine: Engine, document: dict[str, object], *, source: str) -> PinnedPlan:
    refuse_absent(document, source)
    return prepare_plan(engine, plan_from_document(document, source=source)[0], document, source=source)


def prepare_plan(engine: Engine, plan: Plan, document: dict[str, object], *, source: str) -> PinnedPlan:
    registry = engine.registry
    check_registries(plan.context.tool_registries, source=source)
    extended = with_registries(document, engine.tool_registries, source=source)
    if extended is not document:
        context = extended["context"]
        assert isinstance(context, dict)
        plan = replace(plan, context=replace(plan.context, tool_registries=context["tool_registries"]))
    plan, extended = admitted(engine.policy, plan, extended, registry, engine.plan_secrets, source=source)
    if plan.context.pins is not None:
        refuse_changed_skills(plan.context.pins.skills, registry, source=source)
    pinned = pin_plan(plan, extended, registry, engine.clock, source=source, policy=engine.policy.digest)
    refuse_secrets(*pinned, registry, engine.plan_secrets, source=source)
    refuse_looser_pins(pinned.plan, registry, engine.policy, engine.clock.now_ms(), source=source)
    return pinned


def admitted(
    policy: HostPolicy, plan: Plan, document: dict[str, object], registry: Registry, secrets: Secrets, *, source: str
) -> tuple[Plan, dict[str, object]]:
    """The plan within the host's policy. What says why it is not holds words of the plan: no secret stands in them."""
    try:
        return policy.admit(plan, document, secrets, source=source)
    except BeyondPolicy:
        refuse_secrets(plan, document, registry, secrets, source=source)
        raise
