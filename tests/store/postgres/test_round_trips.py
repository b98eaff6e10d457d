"""What a step costs where the server is far away: counted between client and server, over a whole run."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from reenact import Runtime, skill
from tests.postgres.fixtures import Schemas
from tests.postgres.proxy import Proxy


@skill("talk", version="1.0.0", tool_class="read")
def talk(said: str) -> str:
    """An answer that is looked for among what the run holds."""
    return f"{said} and {said}"


@pytest.fixture
def far(new_schema: Schemas) -> Iterator[tuple[Proxy, Runtime]]:
    with new_schema() as url, Proxy(url) as proxy:
        runtime = Runtime(proxy.url_of(url), skills=[talk])
        run_plan(runtime, 1)
        yield proxy, runtime
        runtime.close()


def said(number: int) -> dict[str, str]:
    return {"said": f"{number} {'long ' * 80}"}


def run_plan(runtime: Runtime, steps: int) -> None:
    plan = [{"step_id": f"s{at}", "skill_id": "talk", "parameters": said(at)} for at in range(steps)]
    assert runtime.run({"plan_id": "p", "agent_id": "a", "steps": plan}).status == "completed"


def run_session(runtime: Runtime, calls: int) -> None:
    with runtime.session() as session:
        for at in range(calls):
            assert session.call("talk", said(at)).status == "success"


def test_a_step_of_a_plan_is_one_round_trip_and_a_call_of_a_session_is_two(far: tuple[Proxy, Runtime]) -> None:
    proxy, runtime = far

    def turns(count: int, act: object) -> int:
        """Without those of the log, which is followed beside the runs, and of heartbeats."""
        for thread in threading.enumerate():
            if thread.name == "reenact-log":
                thread.join()
        before = len(proxy.requests)
        act(runtime, count)  # type: ignore[operator]
        return sum("renew_1" not in request.text for request in proxy.requests[before:])

    assert turns(21, run_plan) - turns(1, run_plan) == 20
    assert turns(21, run_session) - turns(1, run_session) == 40
    assert turns(1, run_plan) <= 12


def test_runs_side_by_side_share_their_round_trips(far: tuple[Proxy, Runtime]) -> None:
    proxy, runtime = far
    before = proxy.turns

    async def work() -> None:
        async def one(number: int) -> None:
            async with runtime.session() as session:
                for at in range(10):
                    await session.call("talk", said(100 * number + at))

        await asyncio.gather(*(one(number) for number in range(10)))

    asyncio.run(work())
    assert proxy.turns - before < 10 * 10 * 2


def test_no_loop_waits_for_a_server_that_is_far_away(far: tuple[Proxy, Runtime]) -> None:
    proxy, runtime = far
    lags = []

    async def work() -> None:
        async def tick() -> None:
            while True:
                began = time.perf_counter()
                await asyncio.sleep(0.002)
                lags.append(time.perf_counter() - began - 0.002)

        ticking = asyncio.ensure_future(tick())
        async with runtime.session() as session:
            proxy.delay_s = 0.02
            for at in range(15):
                await session.call("talk", said(at))
            proxy.delay_s = 0.0
        ticking.cancel()

    asyncio.run(work())
    assert sorted(lags)[len(lags) // 2] < 0.01
    assert len(lags) > 50
