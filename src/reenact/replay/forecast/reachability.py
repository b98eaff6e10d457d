"""What our own skills refuse by the plan's words alone: hosts that are inside, skills that are off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from reenact.builtin.net.addresses import parse_address
from reenact.builtin.net.guard import RESOLVER_SERVICE, Guard, normalize_host
from reenact.errors import SkillError

URL_FIELDS = {"http_call": "url", "webhook_send": "url", "llm_invoke": "base_url"}
DEFAULT_PORTS = {"http": 80, "https": 443}


class NotLookedUp(Exception):  # what a name leads to is seen when it is called
    """The host is a name, and names are not resolved here."""


async def why_refused(
    skill_id: str, parameters: Mapping[str, object], context: Mapping[str, object]
) -> SkillError | None:
    """What the skill would raise before it touches anything; None where it would go on."""
    try:
        guard = Guard.of(context, {RESOLVER_SERVICE: addresses_in})
        for host, port in targets(skill_id, parameters):
            with suppress(NotLookedUp):
                await guard.approve(host, port)
    except SkillError as error:
        return error
    disabled = why_disabled(skill_id, context)
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


def targets(skill_id: str, parameters: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    """(host, port) that the plan names literally."""
    url = parameters.get(URL_FIELDS.get(skill_id, ""))
    if isinstance(url, str):
        try:
            parts = urlsplit(url)
            port = parts.port or DEFAULT_PORTS.get(parts.scheme)
        except ValueError:
            return
        if parts.hostname and port:
            yield parts.hostname, port
    host, number = parameters.get("smtp_host"), parameters.get("smtp_port", 587)
    if skill_id == "email_send" and isinstance(host, str) and isinstance(number, int):
        yield host, number


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
