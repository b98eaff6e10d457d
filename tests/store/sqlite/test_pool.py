"""The connections of a store: few, whatever the number of threads; none of a parent's in a forked child."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import StoreUnavailable, TooManyFiles
from reenact.store.sqlite import pool
from reenact.store.sqlite.connection import OPEN, Connection
from reenact.store.sqlite.store import SqliteStore
from tests.crash.harness import in_child


@skill("echo", version="1.0.0", tool_class="read")
def echo(text: str) -> str:
    """Gives back what it got."""
    return text


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(str(tmp_path / "store.db"))


def open_on(store: SqliteStore) -> list[Connection]:
    gc.collect()
    return [each for each in OPEN if each.path == store.path]


def in_threads(act: Callable[[], object], count: int) -> list[object]:
    done: list[object] = []
    threads = [threading.Thread(target=lambda: done.append(act())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Reads that take a while; how many were under way at each."""
    real, lock, now, seen = Connection.query, threading.Lock(), [0], []

    def query(self: Connection, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        with lock:
            now[0] += 1
            seen.append(now[0])
        try:
            threading.Event().wait(0.02)
            return real(self, sql, parameters)
        finally:
            with lock:
                now[0] -= 1

    monkeypatch.setattr(Connection, "query", query)
    return seen


def test_many_threads_read_at_once_through_a_few_connections(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = slow(monkeypatch)
    assert in_threads(store.runs, 40) == [[]] * 40
    assert max(seen) == pool.READERS, "they read side by side"
    assert len(open_on(store)) == pool.READERS + 1
    store.close()


def test_a_thread_alone_opens_one_more(store: SqliteStore) -> None:
    for _ in range(20):
        in_threads(store.runs, 1)
    assert len(open_on(store)) == 2
    store.close()


def test_a_connection_that_an_interrupt_took_away_is_replaced(store: SqliteStore) -> None:
    for _ in range(2 * pool.READERS):
        store.runs()
        store._readers._free.get()  # as Ctrl-C leaves it between two instructions
    assert store.runs() == []
    assert len(open_on(store)) <= pool.READERS + 1
    store.close()


def test_what_is_closed_is_not_opened_again_by_reading(store: SqliteStore) -> None:
    store.close()
    with pytest.raises(StoreUnavailable, match="was closed"):
        store.runs()


def test_a_reader_writes_nothing(store: SqliteStore) -> None:
    with pytest.raises(StoreUnavailable, match="read-only"):
        store._reader().query("DELETE FROM runs")
    store.close()


def test_a_forked_child_uses_none_of_its_parents_connections_and_closes_none(store: SqliteStore) -> None:
    store.runs()

    def child() -> None:
        signal.alarm(30)
        for act in (store.runs, lambda: store.request_cancel("r", "n"), lambda: store._writer.query("SELECT 1")):
            with pytest.raises(StoreUnavailable, match="forked"):
                act()
        before = {each: name_of(each) for each in descriptors_of(store)}
        store.close()
        store._readers.__dict__.clear()
        store.__dict__.clear()
        gc.collect()
        left = {name for name in before.values() if not name.endswith("-turn")}
        assert {name_of(each) for each in before if is_open(each)} == left, "SQLite closed one"

    assert in_child(child) == 0
    with store._writer.transaction() as db:
        db.execute("INSERT INTO store VALUES ('x', 'y')")
    assert Path(f"{store.path}-wal").exists()
    store.close()


def descriptors_of(store: SqliteStore) -> list[int]:
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if str(each.readlink()).startswith(store.path):
                found.append(int(each.name))
    return found


def name_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_a_child_opens_the_store_for_itself_while_its_parent_has_it(store: SqliteStore) -> None:
    def child() -> None:
        own = SqliteStore(store.path)
        with own._writer.transaction() as db:
            db.execute("INSERT INTO store VALUES ('child', 'y')")
        own.close()

    assert in_child(child) == 0
    assert store._writer.query("SELECT value FROM store WHERE key = 'child'") == [("y",)]
    store.close()


def with_few_descriptors(left: int, act: Callable[[], object]) -> None:
    """In a process that may open as many more."""

    def child() -> None:
        held = {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}
        free = (number for number in count() if number not in held)
        limit = next(islice(free, left, None))
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        act()

    assert in_child(child) == 0


@pytest.mark.parametrize("left", range(14))
def test_too_many_open_files_is_told_as_such(left: int, tmp_path: Path) -> None:
    def work() -> None:
        runtime = Runtime(tmp_path / "store.db", skills=[echo])
        with runtime.session(goal="g") as session:
            session.call("echo", {"text": "a"})
        runtime.close()

    def act() -> None:
        try:
            work()
        except StoreUnavailable as refused:
            told = str(refused)
            assert "\n" not in told
            assert "as many files open as it may" in told or "Too many open files" in told, told

    work()  # modules are loaded when they are first used
    with_few_descriptors(left, act)


def test_sessions_that_stay_open_meet_the_limit_with_a_clear_word_and_can_be_closed(tmp_path: Path) -> None:
    def act() -> None:
        runtime = Runtime(tmp_path / "store.db", skills=[echo])
        opened = []
        with pytest.raises(TooManyFiles, match="ulimit -n") as refused:
            for _ in range(100):
                opening = runtime.session(goal="g")
                opening.__enter__()
                opened.append(opening)
        assert refused.value.exit_code == 3
        assert len(opened) > 5
        for opening in opened:
            opening.__exit__(None, None, None)
        with runtime.session(goal="g") as session:
            assert session.call("echo", {"text": "a"}).ok
        assert {row.status for row in runtime.store.runs()} == {"completed"}

    with_few_descriptors(45, act)


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF"])
def test_a_journal_mode_that_was_changed_by_hand_is_set_back(mode: str, store: SqliteStore) -> None:
    store.close()
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute(f"PRAGMA journal_mode = {mode}")
    again = SqliteStore(store.path)
    assert again._writer.query("PRAGMA journal_mode") == [("wal",)]
    assert Path(f"{store.path}-wal").exists()
    again.close()


def test_where_there_can_be_no_log_the_store_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoLog(sqlite3.Connection):
        """As SQLite answers on file systems without shared memory: the mode stays what it was."""

        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            return super().execute("PRAGMA journal_mode" if sql == "PRAGMA journal_mode = WAL" else sql, *parameters)

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: real(*given, **named, factory=NoLog))
    with pytest.raises(StoreUnavailable, match="journal_mode stays delete") as refused:
        SqliteStore(str(tmp_path / "store.db"))
    assert "\n" not in str(refused.value)


def test_runtimes_that_nobody_closes_do_not_use_up_the_descriptors(tmp_path: Path) -> None:
    def act() -> None:
        for number in range(120):
            runtime = Runtime(tmp_path / "store.db", skills=[echo])
            with runtime.session(goal="g") as session:
                assert session.call("echo", {"text": str(number)}).ok

    with_few_descriptors(200, act)
