"""Round trips a step, and what the loop feels of a server that is 5 ms away: between client and server, by a proxy."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import closing

from tests.postgres.proxy import Proxy
from tests.postgres.server import Server

from benchmarks.figure import Figure
from benchmarks.plan import check
from benchmarks.plans import SKILLS, plan
from reenact import Runtime
from reenact.runtime.session.session import Session

DELAY_S = 0.005
MOST_LAG_MS = 10.0
TICK_S = 0.002
CALLS = 100


def measure(server: Server) -> Iterator[Figure]:
    server.add_database("far")
    url = server.url(database="far")
    with Proxy(url) as proxy, closing(Runtime(proxy.url_of(url), skills=SKILLS)) as runtime:
        runtime.run(plan(1))
        trips = (requests(proxy, runtime, 120) - requests(proxy, runtime, 20)) / 100
        yield Figure(name="round trips of a plan step", value=trips, unit="", most=1)
        yield Figure(
            name="round trips of a session call", value=asyncio.run(of_a_call(proxy, runtime)), unit="", most=2
        )
        lags, took = asyncio.run(lag(proxy, runtime))
        note = f"{took / CALLS * 1000:.1f} ms a call; the longest {max(lags):.0f} ms"
        yield Figure(
            name="median lag of the loop, server 5 ms away", value=statistics.median(lags), unit="ms",
            most=MOST_LAG_MS, note=note,
        )  # fmt: skip


def requests(proxy: Proxy, runtime: Runtime, steps: int) -> int:
    """Without those of the log, which follows beside the runs, and of heartbeats."""
    quiet()
    before = len(proxy.requests)
    check(runtime.run(plan(steps)).ok)
    return counted(proxy, before)


def quiet() -> None:
    for thread in threading.enumerate():
        if thread.name == "reenact-log":
            thread.join()


def counted(proxy: Proxy, before: int) -> int:
    return sum("renew_1" not in request.text for request in proxy.requests[before:])


async def of_a_call(proxy: Proxy, runtime: Runtime) -> float:
    quiet()
    async with runtime.session() as session:
        await call(session, 0)
        before = len(proxy.requests)
        for number in range(CALLS):
            await call(session, number + 1)
        return counted(proxy, before) / CALLS


async def call(session: Session, number: int) -> None:
    check((await session.call("note", {"text": f"note {number}", "count": number})).status == "success")


async def lag(proxy: Proxy, runtime: Runtime) -> tuple[list[float], float]:
    """(by how many milliseconds each tick came late, seconds that the calls took)"""
    lags = []

    async def tick() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK_S)
            lags.append((time.perf_counter() - began - TICK_S) * 1000)

    async with runtime.session() as session:
        proxy.delay_s = DELAY_S
        ticking, began = asyncio.ensure_future(tick()), time.perf_counter()
        for number in range(CALLS):
            await call(session, number)
        took = time.perf_counter() - began
        ticking.cancel()
        proxy.delay_s = 0.0
    return lags, took
