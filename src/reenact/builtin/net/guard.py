"""The SSRF guard: where a skill may connect to, decided on the addresses at the moment of connecting."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reenact.builtin.net.addresses import Address, parse_address, why_inside
from reenact.errors import SkillError
from reenact.policy.hosts import HostList, hosts_of
from reenact.values.bounds import whole_number

Resolver = Callable[[str, int], Awaitable[list[str]]]
RESOLVER_SERVICE = "resolver"


async def system_resolver(host: str, port: int) -> list[str]:
    """Every address of the host, in the order of the system's preference."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True)
class Guard:
    """The hosts that a plan allows by name, the only ones that its agent may reach, and how names are resolved."""

    allowed: frozenset[tuple[str, int | None]]
    resolver: Resolver = system_resolver
    only: HostList | None = None

    @classmethod
    def of(cls, context: Mapping[str, Any], services: Mapping[str, Any]) -> Guard:
        """The guard of a plan: `context.allow_hosts` holds `host`, `host:port` or `[v6]:port`."""
        hosts: Iterable[str] = context.get("allow_hosts") or ()
        resolver = services.get(RESOLVER_SERVICE, system_resolver)
        return cls(frozenset(_entry(host) for host in hosts), resolver, hosts_of(context))

    async def approve(self, host: str, port: int) -> list[str]:
        """Addresses that may be connected to, in order; whoever connects must use these and resolve no more.

        One address inside is enough to refuse a name: an answer that mixes inside and outside is not an accident.
        """
        if self.only is not None and not self.only.allows(host, port):
            raise SkillError.of(
                "ERR_BLOCKED_HOST",
                f"{_display(host)}:{port} is not among the hosts of this agent",
                host=host,
                reason="not_of_this_agent",
            )
        addresses = [parse_address(text) for text in await self._resolve(host, port)]
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        if not self.allows(host, port):
            for address in addresses:
                self._check(host, port, address)
        return [str(address) for address in addresses]

    async def _resolve(self, host: str, port: int) -> list[str]:
        try:
            return await self.resolver(host, port)
        except UnicodeError:  # nobody was asked: what has no form on the wire never will be a name
            why = "a part between its dots is empty, or longer than 63 characters"
            raise SkillError.of("ERR_VALIDATION_FAILED", f"{host[:80]!r} is not the name of a host: {why}") from None

    def allows(self, host: str, port: int) -> bool:
        """Whether the plan names the host: then it may lead anywhere."""
        name = normalize_host(host)
        return (name, port) in self.allowed or (name, None) in self.allowed

    def _check(self, host: str, port: int, address: Address) -> None:
        inside = why_inside(address)
        if inside is None or self.allows(str(address), port):
            return
        is_or_leads_to = "is" if normalize_host(host) == str(address) else "leads to"
        raise SkillError.of(
            "ERR_BLOCKED_HOST",
            f"{host} {is_or_leads_to} a {inside} address; if that is meant, "
            f"add {_display(host)}:{port} to context.allow_hosts",
            host=host,
            reason=inside,
        )


def normalize_host(host: str) -> str:
    """One spelling per host: lower case, no brackets, no final dot, addresses in their shortest form."""
    bare = host.strip("[]").rstrip(".").lower()
    try:
        return str(parse_address(bare))
    except ValueError:
        return bare


def _entry(text: str) -> tuple[str, int | None]:
    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    number = whole_number(port)
    if not host or (port and not 0 < (number or 0) < 65536):
        raise SkillError.of(
            "ERR_VALIDATION_FAILED", f"context.allow_hosts: {text!r} is not host, host:port or [v6]:port"
        )
    return normalize_host(host), number


def _display(host: str) -> str:
    bare = host.strip("[]")
    return f"[{bare}]" if ":" in bare else bare
