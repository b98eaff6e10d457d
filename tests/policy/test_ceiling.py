"""What a policy leaves of a context is never more than either, and narrowing it again changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from reenact.contracts.host_policy import Policy
from reenact.contracts.plan import Context
from reenact.policy.budget import budget_policy
from reenact.policy.ceiling import OPEN, Beyond, Ceiling, both_hosts, careful, ceiling_of, first_beyond, narrow
from reenact.policy.hosts import HostList

HERE = "/here"
HOSTS = [
    "a.com",
    "a.com:80",
    "*.a.com",
    "*.b.a.com",
    "x.b.a.com",
    "x.b.a.com:443",
    "*.a.com:443",
    "1.2.3.4",
    "[::1]:80",
]
NAMED = [
    ("a.com", 80),
    ("x.a.com", 443),
    ("x.b.a.com", 443),
    ("x.b.a.com", 80),
    ("1.2.3.4", 1),
    ("::1", 80),
    ("z.org", 1),
]
SKILLS = ["http_call", "http_call@1.2.0", "http_call@1.1.0", "shell", "file_read@1.0.0"]


def real(path: str) -> str:
    return str(Path(HERE, path))


def some(values: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), max_size=4, unique=True)


policies = st.fixed_dictionaries(
    {},
    optional={
        "skills": some([*SKILLS, "*"]),
        "denied_skills": some(SKILLS),
        "hosts": some([*HOSTS, "*"]),
        "disallowed_side_effects": some(["a", "b"]),
        "max_external_calls": st.integers(0, 5),
        "supervisors": some(["auto", "ask", "m:f", "*"]).filter(bool),
        "workspaces": some([".", "data", "data/in", "/else", "*"]),
        "shell": st.fixed_dictionaries({}, optional={"allow": st.booleans(), "commands": some(["ls", "wc", "*"])}),
        "money": st.fixed_dictionaries(
            {}, optional={"budget_cents": st.integers(0, 9), "per_day_cents": st.integers(0, 9)}
        ),
    },
)
contexts = st.fixed_dictionaries(
    {},
    optional={
        "budget_cents": st.integers(0, 9),
        "profile": st.fixed_dictionaries(
            {},
            optional={
                "allowed_skills": some(SKILLS),
                "hosts": some(HOSTS),
                "max_external_calls": st.integers(0, 5),
                "disallowed_side_effects": some(["a", "c"]),
            },
        ),
        "budget": st.fixed_dictionaries({}, optional={"mode": st.sampled_from(["soft", "hard"])}),
        "shell": st.fixed_dictionaries({}, optional={"allow": st.booleans(), "commands": some(["ls", "wc"])}),
        "workspace": st.sampled_from([".", "data/in/deep", "/else/where", "/"]),
    },
)


def ceiling(policy: dict[str, Any], unsaid: Ceiling | None = None) -> Ceiling:
    return ceiling_of(convert(policy, Policy), unsaid or careful(HERE), real)


def reaches(context: Context) -> list[bool]:
    hosts = None if context.profile is None else context.profile.hosts
    return [hosts is None or HostList(hosts).allows(*each) for each in NAMED]


@given(policies, contexts)
def test_narrowing_twice_is_narrowing_once_and_allows_no_more_than_either(
    policy: dict[str, Any], asked: dict[str, Any]
) -> None:
    limit, before = ceiling(policy), convert(asked, Context)
    try:
        after = narrow(before, limit, real)
    except Beyond:
        return
    assert narrow(after, limit, real) == after
    listed = limit.hosts is None or HostList(limit.hosts)
    allowed = [listed is True or listed.allows(*each) for each in NAMED]  # type: ignore[union-attr]
    assert reaches(after) == [one and other for one, other in zip(reaches(before), allowed, strict=True)]
    if limit.limits_money:
        assert budget_policy(after.budget_cents, after.budget).mode == "hard"
    assert limit.budget_cents is None or (after.budget_cents or 0) <= limit.budget_cents
    assert narrow(before, OPEN, real) == before


@given(policies, policies)
def test_a_policy_goes_beyond_another_where_it_allows_what_that_does_not(
    outer: dict[str, Any], inner: dict[str, Any]
) -> None:
    wide = ceiling(outer)
    assert first_beyond(wide, wide) is None
    within = ceiling(inner, wide)
    if first_beyond(within, wide) is not None:
        return
    for host in NAMED:
        if within.hosts is None or HostList(within.hosts).allows(*host):
            assert wide.hosts is None or HostList(wide.hosts).allows(*host)
    assert wide.shell or not within.shell
    assert wide.budget_cents is None or (within.budget_cents is not None and within.budget_cents <= wide.budget_cents)


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("a.com", "a.com:80", "a.com:80"),
        ("*.a.com:443", "x.a.com", "x.a.com:443"),
        ("*.a.com", "*.b.a.com", "*.b.a.com"),
        ("a.com:80", "a.com:81", None),
        ("a.com", "*.a.com", None),
        ("[::1]", "::1", "[::1]"),
    ],
)
def test_what_two_entries_have_in_common(one: str, other: str, common: str | None) -> None:
    assert both_hosts(one, other) == both_hosts(other, one) == common
