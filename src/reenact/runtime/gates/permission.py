"""Second gate: may this agent call this skill at all?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reenact.contracts.plan import Context
from reenact.contracts.references import is_encrypted, is_secret
from reenact.contracts.tool_registry import read_tool_registry
from reenact.errors import SkillError
from reenact.policy.hosts import HostList, Target, named_targets
from reenact.policy.lists import lists, lists_skill
from reenact.policy.tool_class import ToolClassCode, check_tool_class
from reenact.runtime.gates.answer import Refusal
from reenact.runtime.plans.steps import PlannedStep

if TYPE_CHECKING:
    from reenact.runtime.call.call import Call

OUR_OWN = "local"


def limits(context: Context) -> bool:
    """Whether there is anything to check."""
    return context.allowed_skills is not None or bool(context.tool_registries) or context.profile is not None


def check(call: Call) -> Refusal | None:
    """All but the number of external calls, which is counted over the run: see `external`."""
    step, context = call.step, call.run.plan.plan.context
    if context.allowed_skills is not None and not named(step, context.allowed_skills):
        return refuse(f"{step.skill_id} is not among the plan's allowed_skills", {"allowed": context.allowed_skills})
    refusal = by_registry(call, context) if context.tool_registries else None
    if refusal is not None:
        return refusal
    profile = context.profile
    if profile is None:
        return None
    decided_by = call.run.gates.decided_by
    if named(step, profile.denied_skills):
        by = decided_by("denied_skills", lambda ceiling: named(step, ceiling.denied_skills))
        return refuse(f"{step.skill_id} is denied to this agent{by}")
    if profile.allowed_skills is not None and not named(step, profile.allowed_skills):
        by = decided_by("skills", lambda ceiling: not named(step, ceiling.skills or ()))
        message = f"{step.skill_id} is not among the skills of this agent{by}"
        return refuse(message, {"allowed": profile.allowed_skills})
    refusal = by_host(call.parameters, profile.hosts)
    if refusal is not None:
        by = decided_by("hosts", lambda ceiling: by_host(call.parameters, ceiling.hosts) is not None)
        return replace(refusal, message=refusal.message + by)
    declared = step.skill.metadata.side_effects if step.skill is not None else ()
    forbidden = sorted(each for each in set(declared) if lists(profile.disallowed_side_effects, each))
    if forbidden:
        by = decided_by(
            "disallowed_side_effects",
            lambda ceiling: any(lists(ceiling.disallowed_side_effects, each) for each in forbidden),
        )
        message = f"{step.skill_id} has side effects that this agent may not have{by}"
        return refuse(message, {"side_effects": forbidden})
    return None


def by_registry(call: Call, context: Context) -> Refusal | None:
    """Where there are registries, a tool of a server stands in that server's, and is called as what it is there.

    Skills without a server are our own: what they are, they say themselves, unless there is a registry of `local`.
    """
    step, called_as = call.step, call.tool_class
    registries = [read_tool_registry(document) for document in context.tool_registries]
    of_server = [registry for registry in registries if registry.server_id == step.server]
    if not of_server and step.server != OUR_OWN:
        return unregistered(step, "TOOL_UNCLASSIFIED_DENIED", None)
    declared = None if step.skill is None else step.skill.declared_class
    for registry in of_server:
        tool = registry.find(step.tool)
        needs_callers_key = tool is not None and tool.requires_idempotency_key
        code = check_tool_class(
            registry,
            step.tool,
            declared=declared,
            read_only=called_as == "read",
            idempotency_key=step.caller_key if needs_callers_key else step.step_id,  # a call always has one of its own
        )
        if code is not None:
            return unregistered(step, code, declared, called_as)
    return None


def unregistered(step: PlannedStep, code: ToolClassCode, declared: str | None, called_as: str = "write") -> Refusal:
    message = {
        "TOOL_UNCLASSIFIED_DENIED": f"no registry of tools knows {step.skill_id}",
        "TOOL_CLASS_DECLARATION_MISMATCH": f"{step.skill_id} says that it is a {declared}, its registry says otherwise",
        "TOOL_CLASS_MISMATCH": f"this call of {step.skill_id} may only read, and its registry says that it writes",
        "IDEMPOTENCY_KEY_REQUIRED": f"{step.skill_id} is registered as one that needs a key: give an idempotency_key",
    }[code]
    return Refusal("permission", code, message, {"declared": declared, "called_as": called_as})


def by_host(parameters: Mapping[str, object], hosts: Sequence[str] | None) -> Refusal | None:
    """An agent with a list of hosts names no other one in its arguments.

    What is a secret is looked at when it is known, right before the call is sent; where our own skills really go, when
    they connect.
    """
    if hosts is None:
        return None
    allowed = HostList(hosts)
    for field, value, target in named_targets(parameters, parameters.get):
        if not (is_secret(value) or is_encrypted(value)) and (target is None or not allowed.may_allow(target)):
            return Refusal("permission", "ERR_BLOCKED_HOST", not_among(field, target), {"hosts": list(hosts)})
    return None


def refuse_hosts(parameters: Mapping[str, object], hosts: HostList, argument: Callable[[str], object]) -> None:
    """The same once secrets are known; SkillError says which field, and never what stands in it."""
    for field, _, target in named_targets(parameters, argument):
        if target is None or not hosts.allows(*target):
            raise SkillError.of("ERR_BLOCKED_HOST", not_among(field, None), field=field)


def not_among(field: str, target: Target | None) -> str:
    return f"{f'what {field} names' if target is None else target} is not among the hosts of this agent"


def named(step: PlannedStep, skills: Sequence[str]) -> bool:
    """A list may name a skill in all its versions, or one of them."""
    return lists_skill(skills, step.reference)


def refuse(message: str, details: dict[str, object] | None = None) -> Refusal:
    return Refusal("permission", "ERR_PERMISSION_DENIED", message, details or {})
