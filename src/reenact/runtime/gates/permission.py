"""Second gate: may this agent call this skill at all?"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from reenact.contracts.plan import Context
from reenact.contracts.tool_registry import read_tool_registry
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
    """An agent with a list of hosts names no other one in its arguments. `host`, `host:port`, `*.example.com`."""
    if hosts is None:
        return None
    for name in ("url", "base_url", "host"):
        value = parameters.get(name)
        if not isinstance(value, str):
            continue
        wanted = hosts_in(value)
        if not any(fits(host.lower(), wanted) for host in hosts):
            shown = min(wanted, default="what it names")
            return Refusal(
                "permission", "ERR_BLOCKED_HOST", f"{shown} is not among the hosts of this agent", {"hosts": hosts}
            )
    return None


def hosts_in(address: str) -> set[str]:
    """The host of an address, alone and with its port; nothing where there is none to be read."""
    try:
        parts = urlsplit(address if "//" in address else f"//{address}")
        return {parts.hostname or "", parts.netloc.rpartition("@")[2].lower()}
    except ValueError:
        return set()


def fits(pattern: str, wanted: set[str]) -> bool:
    if pattern.startswith("*."):
        return any(name.partition(":")[0].endswith(pattern[1:]) for name in wanted)
    return pattern in wanted


def named(step: PlannedStep, skills: list[str]) -> bool:
    """A list may name a skill in all its versions, or one of them."""
    return step.skill_id in skills or step.reference in skills


def refuse(message: str, details: dict[str, object] | None = None) -> Refusal:
    return Refusal("permission", "ERR_PERMISSION_DENIED", message, details or {})
