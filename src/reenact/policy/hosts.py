"""Allowed hosts: which ones an agent may name and reach. Names are compared, and never resolved.

An entry is `host`, `host:port`, `[v6]:port`, or `*.domain` for every host below a domain, with or without a port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

FIELDS = ("url", "host", "hostname")
ENDINGS = ("_url", "_host", "_hostname")
"""Parameters that name where a call goes: those called so, and those whose names end so."""
DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class Target(NamedTuple):
    host: str
    port: int | None

    def __str__(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port is None else f"{shown}:{self.port}"


class HostList:
    """The hosts of an agent."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = [entry for entry in map(read_address, entries) if entry is not None]

    def allows(self, host: str, port: int | None) -> bool:
        """Whether one of the entries fits exactly; a port that nobody knows fits no entry that has one."""
        return any(fits(entry.host, spelled(host)) and entry.port in (None, port) for entry in self._entries)

    def may_allow(self, target: Target) -> bool:
        """The same where an unknown port may still turn out to be the right one."""
        if target.port is not None:
            return self.allows(*target)
        return any(fits(entry.host, target.host) for entry in self._entries)


def fits(pattern: str, host: str) -> bool:
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def spelled(host: str) -> str:
    """One spelling per host: lower case, no brackets, no final dot, addresses in their shortest form."""
    bare = host.strip("[]").rstrip(".").lower()
    try:
        return str(ip_address(bare))
    except ValueError:
        return bare


def read_address(text: str) -> Target | None:
    """The host and port of an address or a URL; None where none can be read."""
    bare_v6 = text.count(":") > 1 and "/" not in text and not text.startswith("[")
    try:
        parts = urlsplit(text if "//" in text else f"//[{text}]" if bare_v6 else f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return Target(spelled(host), port or DEFAULT_PORTS.get(parts.scheme)) if host else None


def named_targets(
    parameters: Mapping[str, object], argument: Callable[[str], object]
) -> Iterator[tuple[str, object, Target | None]]:
    """(field, value, target) of what parameters name; None where nothing can be read from it.

    A port that does not stand in the address stands beside it: `smtp_port` beside `smtp_host`, as `argument` gives it.
    """
    for field, value in parameters.items():
        if value is None or not (field in FIELDS or field.endswith(ENDINGS)):
            continue
        target = read_address(value) if isinstance(value, str) else None
        if target is not None and target.port is None:
            port = argument(field.rpartition("host")[0] + "port")
            target = Target(target.host, port if isinstance(port, int) else None)
        yield field, value, target


def hosts_of(context: Mapping[str, object]) -> HostList | None:
    """Those of the agent's profile in a plan's context; None where it may reach any."""
    profile = context.get("profile")
    hosts = profile.get("hosts") if isinstance(profile, Mapping) else None
    return None if hosts is None else HostList(hosts)
