"""What our own skills would refuse by the plan's words alone: hosts that are inside, skills that are off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from reenact.builtin.net.addresses import parse_address, why_inside
from reenact.builtin.net.guard import Guard, normalize_host
from reenact.contracts.references import has_references

URL_FIELDS = {"http_call": "url", "webhook_send": "url", "llm_invoke": "base_url"}
DEFAULT_PORTS = {"http": 80, "https": 443}
LOCAL_NAMES = ("localhost", ".localhost")


def why_blocked(skill_id: str, parameters: Mapping[str, object], context: Mapping[str, object]) -> str | None:
    """Why a call would be refused its host. Names are not resolved: what they lead to is seen when it is called."""
    guard = Guard.of(context, {})
    for host, port in targets(skill_id, parameters):
        name = normalize_host(host)
        if guard.only is not None and not guard.only.allows(name, port):
            return f"{host}:{port} is not among the hosts of this agent"
        if guard.allows(name, port):
            continue
        try:
            inside = why_inside(parse_address(name))
        except ValueError:
            inside = "loopback" if name == "localhost" or name.endswith(LOCAL_NAMES[1]) else None
        if inside is not None:
            shown = f"[{name}]" if ":" in name else name
            return f"{host} is a {inside} address; if that is meant, add {shown}:{port} to context.allow_hosts"
    return None


def targets(skill_id: str, parameters: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    """(host, port) that the plan names literally."""
    field = URL_FIELDS.get(skill_id)
    url = parameters.get(field) if field is not None else None
    if isinstance(url, str) and not has_references(url):
        try:
            parts = urlsplit(url)
            port = parts.port or DEFAULT_PORTS.get(parts.scheme)
        except ValueError:
            return
        if parts.hostname and port:
            yield parts.hostname, port
    host, number = parameters.get("smtp_host"), parameters.get("smtp_port", 587)
    if skill_id == "email_send" and isinstance(host, str) and not has_references(host) and isinstance(number, int):
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
