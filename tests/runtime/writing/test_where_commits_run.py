"""No durable commit blocks a loop that has other work; where there is none, no thread is asked."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from reenact import skill
from reenact.errors import StoreError
from reenact.store.base import Store
from tests.engines.places import opened
from tests.runtime.running import Bench, plan

COMMIT_S = 0.2
TICK_S = 0.01
LEAST_TICKS = 5
"""In a commit of 200 ms: twenty on a machine that does nothing else."""


@skill("echo", version="1.0.0", tool_class="read")
async def echo(text: str) -> str:
    """Gives back what it got."""
    return text


@skill("linger", version="1.0.0", tool_class="read")
async def linger(text: str) -> str:
    """Waits for something else, as most calls do."""
    await asyncio.sleep(0.3)
    return text


class SlowCommits:
    """The cursor of a store whose disk takes 200 ms for a COMMIT."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self._cursor = store._writer.cursor
        self.made: list[tuple[float, float, str]] = []
        """From when, until when, and in which thread."""
        monkeypatch.setattr(store._writer, "cursor", self)

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        if sql != "COMMIT":
            return self._cursor.execute(sql, *values)
        began = time.monotonic()
        time.sleep(COMMIT_S)
        self.made.append((began, time.monotonic(), threading.current_thread().name))
        return self._cursor.execute(sql)

    def __getattr__(self, name: str) -> object:
        return getattr(self._cursor, name)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, echo, linger)


@pytest.fixture
def commits(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> SlowCommits:
    return SlowCommits(bench.store, monkeypatch)


async def beside_a_ticker(work: Awaitable[object]) -> list[float]:
    """When another task of the loop came to its turn, while the work was done."""
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(TICK_S)

    ticker = asyncio.ensure_future(tick())
    try:
        await work
    finally:
        ticker.cancel()
    return ticks


async def session_calls(bench: Bench) -> None:
    async with bench.runtime.session(goal="g") as session:
        for number in range(3):
            assert (await session.call("echo", {"text": str(number)})).ok
        await session.turn()


async def plan_run(bench: Bench) -> None:
    steps = [{"skill_id": "echo", "parameters": {"text": str(number)}} for number in range(3)]
    assert (await bench.runtime.run_async(plan(*steps))).ok


@pytest.mark.parametrize("work", [session_calls, plan_run])
def test_other_tasks_of_a_host_go_on_while_a_commit_waits_for_the_disk(
    bench: Bench, commits: SlowCommits, work: Callable[[Bench], Awaitable[None]]
) -> None:
    ticks = asyncio.run(beside_a_ticker(work(bench)))
    assert len(commits.made) >= 4
    for began, ended, thread in commits.made:
        assert thread == "reenact-writer"
        assert sum(began < tick < ended for tick in ticks) >= LEAST_TICKS


def test_a_front_that_drives_one_run_and_one_call_commits_in_its_own_loop(bench: Bench, commits: SlowCommits) -> None:
    bench.run({"skill_id": "echo", "parameters": {"text": "a"}})
    assert {thread for _, _, thread in commits.made} == {"MainThread"}
    commits.made.clear()
    with bench.runtime.session(goal="g") as session:
        assert session.call("echo", {"text": "a"}).ok
        assert session.call("echo", {"text": "b"}).ok
    made = {thread for _, _, thread in commits.made} - {"reenact-log"}  # which follows in its own time
    assert made == {"reenact-session"}


def test_calls_side_by_side_in_a_session_of_threads_do_not_wait_for_each_others_commits(
    bench: Bench, commits: SlowCommits
) -> None:
    with bench.runtime.session(goal="g") as session:
        calls = [threading.Thread(target=session.call, args=("linger", {"text": str(n)})) for n in range(3)]
        for call in calls:
            call.start()
        for call in calls:
            call.join()
        side_by_side = [thread for _, _, thread in commits.made]
    assert side_by_side.count("reenact-writer") >= 2


def test_fifty_runs_in_flight_share_their_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, echo)
    commits: list[str] = []
    real = bench.store._writer.cursor

    class Counting:
        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            commits.extend([sql] if sql == "COMMIT" else [])
            return real.execute(sql, *values)

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    monkeypatch.setattr(bench.store._writer, "cursor", Counting())
    steps = [{"skill_id": "echo", "parameters": {"text": str(number)}} for number in range(4)]
    results = bench.gather(*[plan(*steps)] * 50)
    assert all(result.ok for result in results)
    units = sum(bench.store.find_run(result.run_id).commits for result in results)
    assert units >= 50 * 5
    assert len(commits) - len(results) < units / 3, "but for the leases, which each run gives back by itself"
    for result in results[::10]:
        bench.check(result)


def test_where_no_thread_can_be_started_the_call_says_so_and_the_next_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, real, refused = Bench(tmp_path, echo), threading.Thread.start, ["once"]

    def start(thread: threading.Thread) -> None:
        if thread.name == "reenact-writer" and refused:
            refused.clear()
            raise RuntimeError("can't start new thread")
        real(thread)

    async def work() -> tuple[object, object]:
        async with bench.runtime.session() as session:
            await asyncio.sleep(0)
            return await session.call("echo", {"text": "a"}), await session.call("echo", {"text": "b"})

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(StoreError, match="no thread can be started"):
        asyncio.run(asyncio.wait_for(work(), 30))
    first, second = asyncio.run(asyncio.wait_for(work(), 30))
    assert first.ok
    assert second.ok


def test_a_forked_child_may_close_a_store_that_its_parent_was_writing_to(tmp_path: Path) -> None:
    store = opened(tmp_path / "a.db")
    inside, leave = threading.Event(), threading.Event()

    def write() -> None:
        with store._writer.transaction():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=write)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        store.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    leave.set()
    thread.join()
    store.close()
