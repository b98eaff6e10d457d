"""Second gate: may this agent call this skill at all?"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reenact.contracts.plan import Context
from reenact.contracts.references import is_sealed, is_secret
from reenact.contracts.tool_registry import read_tool_registry
from reenact.errors import SkillError
from reenact.policy.hosts import HostList, Target, named_targets
from reenact.policy.tool_class import check_tool_class
from reenact.runtime.gates.verdict import Refusal
from reenact.runtime.steps import PlannedStep


def check(step: PlannedStep, context: Context, parameters: Mapping[str, object]) -> Refusal | None:
    """All but the number of external calls, which is counted over the run: see `external`."""
    if context.allowed_skills is not None and not named(step, context.allowed_skills):
        return refuse(f"{step.skill_id} is not among the plan's allowed_skills", {"allowed": context.allowed_skills})
    refusal = by_registry(step, context, parameters)
    if refusal is not None:
        return refusal
    profile = context.profile
    if profile is None:
        return None
    if named(step, profile.denied_skills):
        return refuse(f"{step.skill_id} is denied to this agent")
    if profile.allowed_skills is not None and not named(step, profile.allowed_skills):
        return refuse(f"{step.skill_id} is not among the skills of this agent", {"allowed": profile.allowed_skills})
    refusal = by_host(parameters, profile.hosts)
    if refusal is not None:
        return refusal
    declared = step.skill.metadata.side_effects if step.skill is not None else ()
    forbidden = sorted(set(declared) & set(profile.disallowed_side_effects))
    if forbidden:
        return refuse(f"{step.skill_id} has side effects that this agent may not have", {"side_effects": forbidden})
    return None


def by_registry(step: PlannedStep, context: Context, parameters: Mapping[str, object]) -> Refusal | None:
    """A server that has a registry offers what stands in it, as what it stands there for. Our calls have a key."""
    for document in context.tool_registries:
        registry = read_tool_registry(document)
        if registry.server_id != step.server:
            continue
        declared = step.tool_class(parameters)
        code = check_tool_class(
            registry, step.tool, declared=declared, read_only=declared == "read", idempotency_key=step.step_id
        )
        if code is not None:
            return Refusal("permission", code, f"{step.skill_id} is not registered as a {declared} of {step.server}")
    return None


def by_host(parameters: Mapping[str, object], hosts: list[str] | None) -> Refusal | None:
    """An agent with a list of hosts names no other one in its arguments.

    What is a secret is looked at when it is known, right before the call is sent; where our own skills really go, when
    they connect.
    """
    if hosts is None:
        return None
    allowed = HostList(hosts)
    for field, value, target in named_targets(parameters, parameters.get):
        if not (is_secret(value) or is_sealed(value)) and (target is None or not allowed.may_allow(target)):
            return Refusal("permission", "ERR_BLOCKED_HOST", not_among(field, target), {"hosts": hosts})
    return None


def refuse_hosts(parameters: Mapping[str, object], hosts: HostList, argument: Callable[[str], object]) -> None:
    """The same once secrets are known; SkillError says which field, and never what stands in it."""
    for field, _, target in named_targets(parameters, argument):
        if target is None or not hosts.allows(*target):
            raise SkillError.of("ERR_BLOCKED_HOST", not_among(field, None), field=field)


def not_among(field: str, target: Target | None) -> str:
    return f"{f'what {field} names' if target is None else target} is not among the hosts of this agent"


def named(step: PlannedStep, skills: list[str]) -> bool:
    """A list may name a skill in all its versions, or one of them."""
    return step.skill_id in skills or step.reference in skills


def refuse(message: str, details: dict[str, object] | None = None) -> Refusal:
    return Refusal("permission", "ERR_PERMISSION_DENIED", message, details or {})
