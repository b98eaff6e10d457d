"""A host that is to end drains its runtime: nothing new begins, and what was begun is given back."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import Draining, UsageError
from reenact.values.clock import SystemClock
from tests.engines.places import ask, store_at
from tests.runtime.running import Bench, plan, step


class Gate:
    """A skill that waits until it is let go, and counts how often it was called."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.calls: list[int] = []

        @skill("t.wait", version="1.0.0", tool_class="write", in_doubt="hold")
        def wait(n: int) -> int:
            self.calls.append(n)
            self.begun.set()
            assert self.may_end.wait(20)
            return n

        self.skill = wait


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def bench(tmp_path: Path, gate: Gate) -> Bench:
    return Bench(tmp_path, gate.skill)


def steps(*numbers: int) -> dict[str, object]:
    return plan(*(step("t.wait", {"n": n}) for n in numbers))


def test_a_run_is_given_back_between_two_steps(bench: Bench, gate: Gate) -> None:
    with ThreadPoolExecutor() as threads:
        running = threads.submit(bench.runtime.run, steps(1, 2, 3))
        assert gate.begun.wait(20)
        draining = threads.submit(bench.runtime.drain)
        while not bench.runtime.drain_state.asked:
            pass
        gate.may_end.set()
        assert draining.result(20) == []
        result = running.result(20)
    assert (result.status, gate.calls) == ("running", [1])
    assert "given back" in str(result.reason)
    with pytest.raises(Draining):
        bench.runtime.run(steps(4))
    with pytest.raises(Draining):
        bench.runtime.resume(result.run_id)
    other = Runtime(store_at(bench.path), skills=[gate.skill])
    assert other.resume(result.run_id).status == "completed"
    assert gate.calls == [1, 2, 3]
    bench.check(result)


def test_a_call_of_a_session_ends_and_the_next_is_refused(bench: Bench, gate: Gate) -> None:
    def agent() -> None:
        with bench.runtime.session(id="order") as s:
            assert s.call("t.wait", {"n": 1}).output == 1
            s.call("t.wait", {"n": 2})

    with ThreadPoolExecutor() as threads:
        running = threads.submit(agent)
        assert gate.begun.wait(20)
        bench.runtime.drain(wait=False)
        gate.may_end.set()
        assert bench.runtime.drain() == []
        assert isinstance(running.exception(20), Draining)
    with pytest.raises(Draining), bench.runtime.session():
        pass
    other = Runtime(store_at(bench.path), skills=[gate.skill])
    with other.session(id="order") as s:
        assert [s.call("t.wait", {"n": n}).output for n in (1, 2)] == [1, 2]
    assert gate.calls == [1, 2]
    bench.check(s.run_id)


def test_what_is_under_way_after_the_grace_is_named(bench: Bench, gate: Gate) -> None:
    async def go() -> None:
        async with bench.runtime.session() as s:
            call = asyncio.ensure_future(s.call("t.wait", {"n": 1}))
            assert await asyncio.to_thread(gate.begun.wait, 20)
            assert await bench.runtime.drain_async(grace_s=0.1) == [s.run_id]
            gate.may_end.set()
            assert (await call).output == 1
        assert await bench.runtime.drain_async() == []

    asyncio.run(go())


def test_a_run_whose_call_does_not_end_is_as_after_a_crash(bench: Bench, gate: Gate) -> None:
    with ThreadPoolExecutor() as threads:
        running = threads.submit(bench.runtime.run, steps(1, 2))
        assert gate.begun.wait(20)
        (late,) = bench.runtime.drain(grace_s=0.1)
        result = running.result(20)
        gate.may_end.set()
    assert (result.run_id, result.status) == (late, "held"), "the skill is one that a person looks after"
    assert gate.calls == [1]


@pytest.mark.parametrize("way", ["resume", "session"])
def test_nobody_waits_any_longer_for_the_lease_of_another_host(bench: Bench, gate: Gate, way: str) -> None:
    gate.may_end.set()
    with pytest.raises(RuntimeError), bench.runtime.session(id="order") as s:
        raise RuntimeError
    later = SystemClock().now_ms() + 60_000
    ask(bench.path, f"UPDATE runs SET owner = 'elsewhere|7|7|n', expires_ms = {later}")

    def go_on() -> None:
        if way == "resume":
            bench.runtime.resume(s.run_id)
        else:
            with bench.runtime.session(id="order"):
                pass

    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(go_on)
        with pytest.raises(TimeoutError):
            waiting.result(0.5)
        bench.runtime.drain()
        assert isinstance(waiting.exception(2), Draining)


def test_a_grace_is_no_negative_number(bench: Bench) -> None:
    with pytest.raises(UsageError, match="grace_s"):
        bench.runtime.drain(grace_s=-1)
    assert not bench.runtime.drain_state.asked
