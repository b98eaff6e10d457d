"""One run commits by itself; several share a writer, and the trouble of one is nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact.errors import ConcurrentExecution, StoreError
from reenact.runtime.writing.committer import Committed, Committer
from reenact.store.base import Lease
from reenact.store.sqlite.store import SqliteStore
from tests.store.units import Run, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = open_store(tmp_path)
    yield store
    store.close()


async def begin(committer: Committer, number: int) -> tuple[Run, Lease]:
    run = Run(f"run-{number}")
    unit, taken = run.unit()
    done = await committer.commit(unit, None, "a")
    taken()
    return run, done.lease


def test_several_runs_are_committed_in_groups(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []
    real = store.append_many

    def counted(units: Any) -> Any:
        groups.append(len(units))
        return real(units)

    monkeypatch.setattr(store, "append_many", counted)
    committer = Committer(store)
    committer.active = 20

    async def work() -> list[tuple[Run, Lease]]:
        return await asyncio.gather(*(begin(committer, number) for number in range(20)))

    for run, _ in asyncio.run(work()):
        assert list(store.bodies(run.run_id)) == run.bodies
    assert sum(groups) == 20
    assert len(groups) < 20


def test_a_refused_unit_is_told_to_its_own_caller_alone(store: SqliteStore) -> None:
    committer = Committer(store)
    committer.active = 2

    async def work() -> list[Any]:
        runs = [await begin(committer, number) for number in range(3)]
        units = [run.unit(n=9 if index == 1 else None, new=False)[0] for index, (run, _) in enumerate(runs)]
        calls = [committer.commit(unit, lease, "a") for unit, (_, lease) in zip(units, runs, strict=True)]
        return await asyncio.gather(*calls, return_exceptions=True)

    results = asyncio.run(work())
    assert [type(result) for result in results] == [Committed, ConcurrentExecution, Committed]


def test_a_store_that_fails_is_told_to_everybody_and_the_writer_lives_on(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    committer = Committer(store)
    committer.active = 2
    real = store.append_many

    async def work() -> list[Any]:
        monkeypatch.setattr(store, "append_many", lambda _: (_ for _ in ()).throw(StoreError("full")))
        failed = await asyncio.gather(*(begin(committer, number) for number in range(3)), return_exceptions=True)
        monkeypatch.setattr(store, "append_many", real)
        await begin(committer, 9)
        return failed

    assert [type(result) for result in asyncio.run(work())] == [StoreError] * 3
    assert store.find_run("run-9").commits == 1


def test_a_caller_that_is_cancelled_learns_what_became_of_its_unit_first(store: SqliteStore) -> None:
    committer = Committer(store)
    committer.active = 2
    ends: list[Committed] = []

    async def commit() -> None:
        unit, _ = Run("run-1").unit()
        ends.append(await committer.commit(unit, None, "a"))

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
    committer.active = 2

    async def give_up() -> None:
        unit, _ = Run("run-1").unit()
        task = asyncio.ensure_future(committer.commit(unit, None, "a"))
        await asyncio.sleep(0)
        raise KeyError(task.get_name())

    with pytest.raises(KeyError):
        asyncio.run(give_up())
    asyncio.run(begin(committer, 2))
    assert store.find_run("run-2").commits == 1
