"""What our own skills refuse by the plan's words alone: hosts that are inside, skills that are off."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from reenact.builtin.net.addresses import parse_address
from reenact.builtin.net.guard import RESOLVER_SERVICE, Guard, normalize_host
from reenact.errors import SkillError
from reenact.policy.hosts import named_targets
from reenact.runtime.plans.steps import PlannedStep

GUARDED = ("http_call", "webhook_send", "llm_invoke", "email_send")


class NotLookedUp(Exception):  # what a name leads to is seen when it is called
    """The host is a name, and names are not resolved here."""


async def why_refused(
    step: PlannedStep, parameters: Mapping[str, object], context: Mapping[str, object]
) -> SkillError | None:
    """What the step's skill would raise before it touches anything; None where it would go on."""
    try:
        if step.skill is not None and step.skill_id in GUARDED:
            guard = Guard.of(context, {RESOLVER_SERVICE: addresses_in})
            argument = partial(step.skill.metadata.argument, parameters=parameters)
            for _, _, target in named_targets(parameters, argument):
                if target is not None and target.port is not None:
                    with suppress(NotLookedUp):
                        await guard.approve(target.host, target.port)
    except SkillError as error:
        return error
    disabled = why_disabled(step.skill_id, context)
    return None if disabled is None else SkillError.of("ERR_SKILL_DISABLED", disabled)


async def addresses_in(host: str, _port: int) -> list[str]:
    """The address that a host is, without asking anybody."""
    name = normalize_host(host)
    if name == "localhost" or name.endswith(".localhost"):
        return ["127.0.0.1"]
    try:
        return [str(parse_address(name))]
    except ValueError:
        raise NotLookedUp from None


def why_disabled(skill_id: str, context: Mapping[str, object]) -> str | None:
    if skill_id == "shell":
        rules = context.get("shell")
        if not isinstance(rules, Mapping) or rules.get("allow") is not True:
            return 'shell is off; a plan switches it on with context.shell = {"allow": true}'
        if isinstance(rules.get("workspace"), str):
            return None
    if skill_id in ("file_read", "file_write", "shell") and not context.get("workspace"):
        return f"{skill_id} needs a folder to work in; set context.workspace in the plan"
    return None
