"""Loops that have other work hand their commits to one thread, and the trouble of one run is nobody else's."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact.errors import ConcurrentExecution, StoreError
from reenact.runtime.writing import committer as committer_module
from reenact.runtime.writing.committer import Committer, Done
from reenact.store.base import Appended, Lease
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import FixedClock
from tests.crash.harness import in_child
from tests.engines.places import opened
from tests.store.units import Run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = opened(tmp_path / "store.db", clock=FixedClock())
    yield store
    store.close()


async def begin(committer: Committer, number: int) -> tuple[Run, Lease]:
    run = Run(f"run-{number}")
    unit, taken = run.unit()
    done = (await committer.commit((unit, None, "a"))).result
    assert isinstance(done, Appended)
    taken(done)
    return run, done.lease


def test_what_waits_when_a_transaction_begins_shares_it(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []
    append, append_many, begun, go_on = store.append, store.append_many, threading.Event(), threading.Event()

    def slow(*given: Any, **named: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return append(*given, **named)

    def counted(units: Any) -> Any:
        groups.append(len(units))
        return append_many(units)

    monkeypatch.setattr(store, "append", slow)
    monkeypatch.setattr(store, "append_many", counted)
    committer = Committer(store)

    async def work() -> list[tuple[Run, Lease]]:
        first = asyncio.ensure_future(begin(committer, 0))
        await asyncio.to_thread(begun.wait)
        others = [asyncio.ensure_future(begin(committer, number)) for number in range(1, 20)]
        await asyncio.sleep(0)  # each has handed over its unit
        go_on.set()
        return await asyncio.gather(first, *others)

    for run, _ in asyncio.run(work()):
        assert list(store.bodies(run.run_id)) == run.bodies
    assert groups == [19]


def test_a_refused_unit_is_told_to_its_own_caller_alone(store: SqliteStore) -> None:
    committer = Committer(store)

    async def work() -> list[Any]:
        runs = [await begin(committer, number) for number in range(3)]
        units = [run.unit(n=9 if index == 1 else None, new=False)[0] for index, (run, _) in enumerate(runs)]
        calls = [committer.commit((unit, lease, "a")) for unit, (_, lease) in zip(units, runs, strict=True)]
        return await asyncio.gather(*calls, return_exceptions=True)

    results = asyncio.run(work())
    assert [type(result) for result in results] == [Done, ConcurrentExecution, Done]


def test_a_store_that_fails_is_told_to_everybody_and_the_writer_lives_on(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    committer = Committer(store)

    def full(*_: object, **__: object) -> None:
        raise StoreError("full")

    async def work() -> list[Any]:
        monkeypatch.setattr(store, "append", full)
        monkeypatch.setattr(store, "append_many", full)
        failed = await asyncio.gather(*(begin(committer, number) for number in range(3)), return_exceptions=True)
        monkeypatch.undo()
        await begin(committer, 9)
        return failed

    assert [type(result) for result in asyncio.run(work())] == [StoreError] * 3
    assert store.find_run("run-9").commits == 1


def test_a_caller_that_is_cancelled_learns_what_became_of_its_unit_first(store: SqliteStore) -> None:
    committer = Committer(store)
    ends: list[Done] = []

    async def commit() -> None:
        unit, _ = Run("run-1").unit()
        ends.append(await committer.commit((unit, None, "a")))

    async def work() -> None:
        task = asyncio.ensure_future(commit())
        await asyncio.sleep(0)  # it has put its unit into the queue
        task.cancel()
        await task

    asyncio.run(work())
    assert isinstance(ends[0].interrupted, asyncio.CancelledError)
    assert store.find_run("run-1").commits == 1


def test_a_loop_that_ended_early_leaves_nothing_to_the_next_one(store: SqliteStore) -> None:
    committer = Committer(store)

    async def give_up() -> None:
        unit, _ = Run("run-1").unit()
        task = asyncio.ensure_future(committer.commit((unit, None, "a")))
        await asyncio.sleep(0)
        raise KeyError(task.get_name())

    with pytest.raises(KeyError):
        asyncio.run(give_up())
    asyncio.run(begin(committer, 2))
    assert store.find_run("run-2").commits == 1


def writer_threads() -> int:
    return sum(thread.name == "reenact-writer" for thread in threading.enumerate())


def test_a_thousand_runtimes_leave_no_thread_behind(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is let go of without a word, and some are closed."""
    monkeypatch.setattr(committer_module, "IDLE_S", 0.02)
    unit, _ = Run("run-1").unit(n=9, new=False)
    lease = Lease("run-1", "a", 1, 0)
    for number in range(1000):
        committer = Committer(store)
        with pytest.raises(ConcurrentExecution):
            asyncio.run(committer.commit((unit, lease, "a")))
        if number % 10 == 0:
            committer.close()
    for _ in range(500):
        if writer_threads() == 0:
            return
        time.sleep(0.01)
    pytest.fail(f"{writer_threads()} threads are left")


def test_a_thread_that_has_ended_is_started_again(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer_module, "IDLE_S", 0.001)
    committer = Committer(store)

    async def work() -> None:
        for number in range(30):
            await begin(committer, number)
            await asyncio.sleep(0.001 * (number % 3))

    asyncio.run(work())
    assert len(store.runs()) == 30


def test_a_forked_child_has_a_writer_of_its_own(store: SqliteStore, tmp_path: Path) -> None:
    committer = Committer(store)
    asyncio.run(begin(committer, 1))

    def child() -> None:
        committer._store = committer._thread._store = opened(tmp_path / "store.db", clock=FixedClock())
        asyncio.run(begin(committer, 2))

    in_child(child)
    asyncio.run(begin(committer, 3))
    assert {row.run_id for row in store.runs()} == {"run-1", "run-2", "run-3"}
