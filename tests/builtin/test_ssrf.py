"""What a plan did not allow is not reached: by no spelling, no name, no redirect, no second answer of a resolver.

Nothing here leaves the machine: names are resolved by a stub, and `connecting` records each address that would
have been connected to and lets only loopback through.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import pytest

from reenact.builtin.email_send import email_send
from reenact.builtin.http_call import http_call
from reenact.builtin.llm_invoke import llm_invoke
from reenact.builtin.net.addresses import why_inside
from reenact.builtin.net.guard import Guard, system_resolver
from reenact.builtin.webhook_send import webhook_send
from reenact.errors import SkillError
from reenact.skills.skill import Skill
from tests.builtin.calling import Called, call
from tests.builtin.servers import Server, answer

PUBLIC = "93.184.216.34"
Connecting = list[tuple[str, int]]


@pytest.fixture
def connecting(monkeypatch: pytest.MonkeyPatch) -> Connecting:
    """Where connections went. Anything but loopback fails here, before a packet leaves; no name server is asked."""
    attempts: Connecting = []
    connect = socket.socket.connect

    def guarded(sock: socket.socket, address: Any) -> None:
        attempts.append(address[:2])
        if not ip_address(address[0]).is_loopback:
            raise ConnectionRefusedError(111, "kept inside by the test")
        connect(sock, address)

    resolve = socket.getaddrinfo

    def resolve_numbers_only(
        host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        numeric = 0 if host == "localhost" else socket.AI_NUMERICHOST
        return resolve(host, port, family, type, proto, flags | numeric)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket, "getaddrinfo", resolve_numbers_only)
    return attempts


def resolving(*answers: list[str]) -> Callable[[str, int], Any]:
    """A resolver that gives these answers in turn, whatever the name; the last one stays."""
    rest = list(answers)

    async def resolve(host: str, port: int) -> list[str]:
        return rest.pop(0) if len(rest) > 1 else rest[0]

    return resolve


def fetch(url: str, resolver: Any = system_resolver, allow: list[str] | None = None) -> Called:
    return call(
        http_call,
        {"url": url},
        context={"allow_hosts": allow or []},
        services={"resolver": resolver},
    )


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "127.255.255.254",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "localhost",
        "LOCALHOST",
        "127.0.0.1.",
        "１２７.0.0.1",
    ],
)
def test_no_spelling_of_loopback_is_reached(host: str, connecting: Connecting) -> None:
    with Server(answer()) as server:
        called = fetch(f"http://{host}:{server.port}/")
    # Some spellings are no host at all for the library or the system's resolver; none may connect.
    assert called.code in {"ERR_BLOCKED_HOST", "ERR_VALIDATION_FAILED", "ERR_DNS_FAILURE"}
    assert connecting == []
    assert server.requests == []
    assert called.report.side_effects == []


def test_the_common_spellings_are_resolved_and_then_blocked(connecting: Connecting) -> None:
    for host in ("127.0.0.1", "2130706433", "0x7f000001", "127.1", "[::ffff:127.0.0.1]", "[::1]", "localhost"):
        assert fetch(f"http://{host}:8080/").code == "ERR_BLOCKED_HOST", host
    assert connecting == []


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "169.254.170.2",
        "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1",
        "fd00:ec2::254", "fe80::1", "fe80::1%lo", "fec0::1", "ff02::1", "64:ff9b::10.0.0.1", "64:ff9b:1::1",
        "::ffff:169.254.169.254", "::ffff:0:127.0.0.1", "2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "100::1",
        "::2", "1::1", "4000::1",
    ],
)  # fmt: skip
def test_a_name_that_resolves_to_an_inside_address_is_refused(address: str, connecting: Connecting) -> None:
    called = fetch("http://innocent.example/", resolving([address]))
    assert called.code == "ERR_BLOCKED_HOST"
    assert "allow_hosts" in str(called.error)
    assert connecting == []


def test_one_inside_address_among_public_ones_is_enough(connecting: Connecting) -> None:
    for answers in ([PUBLIC, "10.0.0.1"], ["10.0.0.1", PUBLIC]):
        assert fetch("http://mixed.example/", resolving(answers)).code == "ERR_BLOCKED_HOST"
    assert connecting == []


@pytest.mark.parametrize(
    "address", [PUBLIC, "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"]
)
def test_public_addresses_pass_the_guard_and_are_what_is_connected_to(address: str, connecting: Connecting) -> None:
    called = fetch("http://public.example:8080/", resolving([address]))
    assert connecting == [(str(ip_address(address)), 8080)]
    assert called.code == "ERR_CONNECTION_REFUSED"  # the fixture's refusal


def test_a_name_that_changes_its_answer_between_check_and_connect_gains_nothing(connecting: Connecting) -> None:
    """Rebinding: the first answer is public, every later one is loopback. Only the first is ever asked for."""
    with Server(answer()) as server:
        called = fetch(f"http://rebind.example:{server.port}/", resolving([PUBLIC], ["127.0.0.1"]))
    assert connecting == [(PUBLIC, server.port)]
    assert server.requests == []
    assert called.code == "ERR_CONNECTION_REFUSED"


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example", "xn--" + "a" * 70])
@pytest.mark.parametrize(
    ("skill", "field", "others"),
    [
        (http_call, "url", {}),
        (webhook_send, "url", {"payload": {}}),
        (llm_invoke, "base_url", {"prompt": "x", "model": "gpt-4o", "api_key": "k"}),
        (email_send, "smtp_host", {"to": ["a@b.example"], "sender": "a@b.example", "subject": "x", "body": "x"}),
    ],
)
def test_what_never_is_the_name_of_a_host_is_the_callers_mistake(
    skill: Skill, field: str, others: dict[str, Any], host: str
) -> None:
    """It was said to be our own failure, to be tried again."""
    called = call(skill, {**others, field: host if field == "smtp_host" else f"https://{host}/"})
    assert called.code == "ERR_VALIDATION_FAILED"
    assert called.report.side_effects == []


def test_every_redirect_is_resolved_and_checked_again(connecting: Connecting) -> None:
    targets = [
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/",
        "http://[::ffff:169.254.169.254]/",
        "//10.0.0.1/",
        "http://localhost:1/",
    ]
    for target in targets:
        with Server(answer(302, headers={"location": target})) as server:
            called = fetch(server.url, allow=[server.name])
        assert called.code == "ERR_BLOCKED_HOST", target
        assert connecting == [("127.0.0.1", server.port)]
        connecting.clear()


def test_a_redirect_to_another_port_of_an_allowed_host_is_refused(connecting: Connecting) -> None:
    with Server(answer()) as other, Server(answer(307, headers={"location": other.url})) as server:
        called = fetch(server.url, allow=[server.name])
    assert called.code == "ERR_BLOCKED_HOST"
    assert other.requests == []


@pytest.mark.parametrize(
    ("allow", "host", "reached"),
    [
        ("127.0.0.1:{port}", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1:{port}", "localhost", True),
        ("127.0.0.1:1", "127.0.0.1", False),
        ("localhost:{port}", "localhost", True),
        ("LOCALHOST.:{port}", "localhost", True),
        ("localhost:{port}", "127.0.0.1", False),
        ("internal.example", "internal.example", True),
        ("internal.example", "evil.internal.example", False),
        ("internal.example", "internal.example.evil", False),
        ("[::1]:{port}", "127.0.0.1", False),
    ],
)
def test_a_plan_allows_hosts_by_name_or_address_with_or_without_a_port(
    allow: str, host: str, reached: bool, connecting: Connecting
) -> None:
    with Server(answer(200, b"in")) as server:
        resolver = resolving(["127.0.0.1"])
        called = fetch(f"http://{host}:{server.port}/", resolver, [allow.format(port=server.port)])
    assert (called.code == "OK") is reached
    assert bool(connecting) is reached


@pytest.mark.parametrize("entry", ["", ":80", "a:b", "a:0", "a:99999", "[::1]:x"])
def test_an_entry_that_is_no_host_is_refused(entry: str) -> None:
    with pytest.raises(SkillError, match="allow_hosts"):
        Guard.of({"allow_hosts": [entry]}, {})


def test_the_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch, connecting: Connecting) -> None:
    with Server(answer(200, b"proxied")) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        called = fetch("http://public.example/", resolving([PUBLIC]))
    assert called.code == "ERR_CONNECTION_REFUSED"
    assert connecting == [(PUBLIC, 80)]
    assert proxy.requests == []


def test_a_second_address_is_tried_when_the_first_does_not_answer(connecting: Connecting) -> None:
    with Server(answer(200, b"second")) as server:
        called = fetch(
            f"http://two.example:{server.port}/",
            resolving(["127.0.0.2", "127.0.0.1"]),
            [f"two.example:{server.port}"],
        )
    assert called.output["body"] == "second"
    assert [host for host, _ in connecting] == ["127.0.0.2", "127.0.0.1"]


def test_the_table_agrees_with_the_standard_library_where_both_have_an_opinion() -> None:
    """Every /8 of IPv4 at its start, middle and end: what Python calls non-global is inside for us."""
    for first in range(256):
        for rest in ("0.0.0", "0.0.1", "64.0.1", "128.0.1", "168.0.1", "254.1.1", "255.255.255"):
            address = ip_address(f"{first}.{rest}")
            if not address.is_global or address.is_multicast:
                assert why_inside(address) is not None, address


def test_the_guard_is_asked_in_the_event_loop_that_connects() -> None:
    async def main() -> list[str]:
        return await Guard.of({"allow_hosts": ["localhost"]}, {}).approve("localhost", 80)

    assert set(asyncio.run(main())) <= {"127.0.0.1", "::1"}
