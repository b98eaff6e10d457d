"""Limits per skill and per host, as the plan sets them."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

import pytest

from reenact.builtin.http_call import http_call
from reenact.builtin.limiter import Limiter, limited
from reenact.errors import SkillError
from reenact.skills.context import SkillContext
from reenact.values.clock import FixedClock
from tests.builtin.calling import call
from tests.builtin.servers import Server, answer
from tests.skills.contexts import make_context


def under(limits: dict[str, Any], limiter: Limiter, clock: FixedClock) -> SkillContext:
    return make_context(context={"rate_limits": limits}, services={"limiter": limiter}, clock=clock)


def test_more_calls_than_the_rate_are_refused_and_told_when_to_come_back() -> None:
    limiter, clock = Limiter(), FixedClock()
    limits = {"skills": {"a": {"per_second": 2, "burst": 2}}}
    for _ in range(2):
        with limited(under(limits, limiter, clock), "a"):
            pass
    ctx = under(limits, limiter, clock)
    with pytest.raises(SkillError) as caught, limited(ctx, "a"):
        pass
    assert caught.value.code == "ERR_RATE_LIMIT_INTERNAL"
    assert ctx.report.retry_after_ms == 500
    clock.advance(0.5)
    with limited(under(limits, limiter, clock), "a"):
        pass


def test_a_pause_fills_the_bucket_up_to_the_burst_and_no_further() -> None:
    limiter, clock = Limiter(), FixedClock()
    limits = {"skills": {"a": {"per_second": 1, "burst": 3}}}
    clock.advance(1000)
    passed = 0
    for _ in range(10):
        try:
            with limited(under(limits, limiter, clock), "a"):
                passed += 1
        except SkillError:
            pass
    assert passed == 3


def test_more_calls_at_once_than_allowed_are_refused() -> None:
    limiter, clock = Limiter(), FixedClock()
    limits = {"hosts": {"h": {"concurrent": 2}}}
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(limited(under(limits, limiter, clock), "a", "h"))
        with pytest.raises(SkillError) as caught, limited(under(limits, limiter, clock), "a", "h"):
            pass
        assert caught.value.code == "ERR_RATE_LIMIT_CONCURRENT"
    with limited(under(limits, limiter, clock), "a", "h"):
        pass


def test_a_refusal_by_the_hosts_limit_gives_the_skills_place_back() -> None:
    limiter, clock = Limiter(), FixedClock()
    limits = {"skills": {"a": {"concurrent": 1}}, "hosts": {"h": {"per_second": 1}}}
    with limited(under(limits, limiter, clock), "a", "h"):
        pass
    with pytest.raises(SkillError, match="host h"), limited(under(limits, limiter, clock), "a", "h"):
        pass
    with limited(under(limits, limiter, clock), "a", "other"):
        pass


def test_hosts_are_limited_apart_from_each_other_and_the_star_stands_for_the_rest() -> None:
    limiter, clock = Limiter(), FixedClock()
    limits = {"hosts": {"*": {"per_second": 1}, "free": {"per_second": 100, "burst": 100}}}
    for host in ("a", "b", "free", "free", "free"):
        with limited(under(limits, limiter, clock), "x", host):
            pass
    with pytest.raises(SkillError, match="host a"), limited(under(limits, limiter, clock), "x", "a"):
        pass


def test_no_more_than_the_limit_pass_when_many_threads_come_at_once() -> None:
    limiter, clock = Limiter(), FixedClock()
    limits = {"skills": {"a": {"concurrent": 3}}}
    inside, gate, refused = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)

    def attempt() -> None:
        try:
            with limited(under(limits, limiter, clock), "a"):
                inside.release()
                gate.wait(10)
        except SkillError:
            refused.release()

    threads = [threading.Thread(target=attempt) for _ in range(12)]
    for thread in threads:
        thread.start()
    for _ in range(9):
        assert refused.acquire(timeout=10)
    for _ in range(3):
        assert inside.acquire(timeout=10)
    gate.set()
    for thread in threads:
        thread.join()
    assert not inside.acquire(blocking=False)


@pytest.mark.parametrize(
    "limits",
    [
        {"skill": {}},
        {"skills": {"a": 3}},
        {"skills": {"a": {"per_minute": 3}}},
        {"skills": {"a": {"per_second": 0}}},
        {"skills": {"a": {"burst": 1.5}}},
        {"skills": {"a": {"concurrent": True}}},
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(SkillError) as caught, limited(under(limits, Limiter(), FixedClock()), "a"):
        pass
    assert caught.value.code == "ERR_VALIDATION_FAILED"


def test_http_call_is_limited_per_host_before_anything_is_sent() -> None:
    limiter = Limiter()
    with Server(answer()) as server:
        context = {
            "allow_hosts": [server.name],
            "rate_limits": {"hosts": {"127.0.0.1": {"per_second": 0.001}}},
        }
        first, second = (
            call(http_call, {"url": server.url}, context=context, services={"limiter": limiter}) for _ in range(2)
        )
    assert (first.code, second.code) == ("OK", "ERR_RATE_LIMIT_INTERNAL")
    assert second.report.side_effects == []
    assert second.report.retry_after_ms is not None
    assert len(server.requests) == 1
