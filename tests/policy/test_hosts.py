"""Which hosts an agent may name: compared by name and port, in one spelling, and refused where nothing can be read."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.policy.hosts import HostList, Target, hosts_of, named_targets, read_address


@pytest.mark.parametrize(("entry", "host", "port", "allowed"), [
    ("good.example.com", "good.example.com", 443, True),
    ("good.example.com", "GOOD.example.com.", 443, True),
    ("Good.Example.com.", "good.example.com", None, True),
    ("good.example.com", "notgood.example.com", 443, False),
    ("good.example.com", "good.example.com.evil.example", 443, False),
    ("good.example.com:443", "good.example.com", 443, True),
    ("good.example.com:443", "good.example.com", 8443, False),
    ("good.example.com:443", "good.example.com", None, False),
    ("*.example.com", "a.b.example.com", 1, True),
    ("*.example.com", "example.com", 1, False),
    ("*.example.com", "evilexample.com", 1, False),
    ("*.example.com:80", "a.example.com", 80, True),
    ("*.example.com:80", "a.example.com", 81, False),
    ("::1", "0:0:0:0:0:0:0:1", 80, True),
    ("[::1]:80", "::1", 80, True),
    ("[::1]:80", "::1", 81, False),
    ("https://good.example.com/", "good.example.com", 443, True),
    ("", "", None, False),
    ("bad:port:", "bad", None, False),
])  # fmt: skip
def test_an_entry_fits_a_host_or_does_not(entry: str, host: str, port: int | None, allowed: bool) -> None:
    assert HostList([entry]).allows(host, port) is allowed


@pytest.mark.parametrize(("text", "target"), [
    ("https://a.example.com/x", Target("a.example.com", 443)),
    ("http://user:word@a.example.com:81/x", Target("a.example.com", 81)),
    ("http://good.example.com@evil.example.com/", Target("evil.example.com", 80)),
    ("a.example.com", Target("a.example.com", None)),
    ("a.example.com:25", Target("a.example.com", 25)),
    ("http://[::1]:9/", Target("::1", 9)),
    ("http://a:70000/", None),
    ("http:///x", None),
    ("", None),
])  # fmt: skip
def test_an_address_is_read_or_is_not(text: str, target: Target | None) -> None:
    assert read_address(text) == target


@pytest.mark.parametrize(("parameters", "targets"), [
    ({"url": "http://a/", "body": {"url": "http://b/"}, "text": "http://c/"}, [("url", Target("a", 80))]),
    ({"base_url": None, "smtp_host": "a", "smtp_port": 25}, [("smtp_host", Target("a", 25))]),
    ({"host": "a", "port": 1}, [("host", Target("a", 1))]),
    ({"host": "a", "port": "1"}, [("host", Target("a", None))]),
    ({"hook_url": ["http://a/"], "hostname": 7}, [("hook_url", None), ("hostname", None)]),
])  # fmt: skip
def test_what_parameters_name(parameters: dict[str, Any], targets: list[Any]) -> None:
    assert [(field, target) for field, _, target in named_targets(parameters, parameters.get)] == targets


def test_where_a_port_is_not_known_yet_it_may_turn_out_to_be_the_right_one() -> None:
    assert HostList(["a:25"]).may_allow(Target("a", None))
    assert not HostList(["a:25"]).may_allow(Target("a", 26))
    assert not HostList(["a:25"]).may_allow(Target("b", None))


def test_without_a_list_there_is_no_limit_and_an_empty_one_allows_nothing() -> None:
    assert hosts_of({}) is None
    assert hosts_of({"profile": {"denied_skills": []}}) is None
    empty = hosts_of({"profile": {"hosts": []}})
    assert empty is not None
    assert not empty.allows("a", 1)
