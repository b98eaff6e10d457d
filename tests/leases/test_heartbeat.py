"""What is wrong with one run, or with the machine, costs no other run its lease."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from reenact import skill
from reenact.errors import DamagedRecord, StoreError
from reenact.runtime.effects import live
from reenact.store import heartbeat
from reenact.store.base import Appended, Lease
from reenact.store.heartbeat import Heartbeat
from reenact.store.sqlite.store import SqliteStore
from tests.runtime.running import Bench, step
from tests.store.units import Run

NO_TEXT = ("x'00'", "CAST(x'ff' AS TEXT)")


def two(folder: Path) -> tuple[SqliteStore, list[Run], list[Lease]]:
    store, runs = SqliteStore(str(folder / "store.db")), [Run("whole"), Run("damaged")]
    units = [run.unit() for run in runs]
    done = [store.append(unit, None, owner="me") for unit, _ in units]
    for (_, taken), each in zip(units, done, strict=True):
        taken(each)
    return store, runs, [each.lease for each in done]


def damage(store: SqliteStore, cell: str) -> None:
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute(f"UPDATE runs SET cancel = {cell} WHERE run_id = 'damaged'")


@pytest.mark.parametrize("cell", NO_TEXT)
def test_a_cell_of_the_wrong_type_does_not_end_the_heartbeat_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: str
) -> None:
    monkeypatch.setattr(heartbeat, "INTERVAL_S", 0.001)
    store, _, leases = two(tmp_path)
    damage(store, cell)
    whole, renewed, often = store.renew, [], threading.Event()

    def renew(held: list[Lease]) -> list[Lease]:
        kept = whole(held)
        renewed.extend(lease.run_id for lease in kept)
        if len(renewed) >= 3:
            often.set()
        return kept

    monkeypatch.setattr(store, "renew", renew)
    beats = Heartbeat(store)
    for lease in leases:
        beats.keep(lease.run_id, lambda lease=lease: lease)  # type: ignore[misc]
    assert often.wait(30)
    assert set(renewed) == {"whole"}
    for lease in leases:
        beats.drop(lease.run_id)


@pytest.mark.parametrize("cell", NO_TEXT)
def test_nor_is_it_told_to_those_whose_commits_share_a_transaction(tmp_path: Path, cell: str) -> None:
    store, runs, leases = two(tmp_path)
    damage(store, cell)
    units = [run.unit(n=2)[0] for run in runs]
    first, second = store.append_many([(unit, lease, "me") for unit, lease in zip(units, leases, strict=True)])
    assert isinstance(first, Appended)
    assert isinstance(second, DamagedRecord)
    assert [row.commits for row in sorted(store.runs(), key=lambda row: row.run_id) if row.run_id == "whole"] == [2]


@skill("echo", version="1.0.0", tool_class="write")
def echo(text: str) -> str:
    return text


@pytest.mark.parametrize("name", ["reenact-heartbeat", "reenact-skill"])
def test_where_no_thread_can_be_started_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    bench, real, refused = Bench(tmp_path, echo), threading.Thread.start, [name]

    def start(thread: threading.Thread) -> None:
        if thread.name in refused:
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(live.THREADS, "_idle", [])
    if name == "reenact-heartbeat":
        with pytest.raises(StoreError, match="no thread can be started to keep a lease"):
            bench.run(step(echo, {"text": "a"}))
        assert bench.store.runs() == [] or bench.store.unattended()
    else:
        assert bench.run(step(echo, {"text": "a"})).status == "failed"
    assert not bench.runtime.drain_state.held
    assert not live.DISPATCHES
    refused.clear()
    assert bench.run(step(echo, {"text": "b"})).status == "completed"
