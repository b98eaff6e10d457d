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
from reenact.errors import StoreError, StoreGone, StoreUnavailable, TooManyFiles
from reenact.store.checks.verification import verify_run
from reenact.store.sqlite import pool
from reenact.store.sqlite.connection import Connection
from reenact.store.sqlite.opened.shared import OPEN, OpenFile
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import FixedClock
from tests.crash.harness import in_child


@skill("echo", version="1.0.0", tool_class="read")
def echo(text: str) -> str:
    """Gives back what it got."""
    return text


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(str(tmp_path / "store.db"))


def open_on(store: SqliteStore) -> list[OpenFile]:
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
        store._readers._open.free.get()  # as Ctrl-C leaves it between two instructions
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


def test_a_store_that_is_only_looked_at_meets_the_limit_with_a_clear_word(tmp_path: Path) -> None:
    """Its log holds commits, without which nobody may look at it."""
    runtime = Runtime(tmp_path / "store.db", skills=[echo])
    with runtime.session(goal="g") as session:
        session.call("echo", {"text": "a"})
    (run,) = runtime.store.runs()
    verify_run(str(tmp_path / "store.db"), run.run_id)  # modules are loaded when they are first used

    def act() -> None:
        with suppress(OSError):
            while True:
                os.open(os.devnull, os.O_RDONLY)
        with pytest.raises(TooManyFiles, match="ulimit -n"):
            verify_run(str(tmp_path / "store.db"), run.run_id)

    with_few_descriptors(0, act)


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


def connections_in(folder: Path) -> int:
    for thread in threading.enumerate():
        if thread.name == "reenact-log":  # it has its store until it is done
            thread.join()
    gc.collect()
    return len([each for each in OPEN if each.path.startswith(str(folder))])


def works(runtime: Runtime, name: str) -> None:
    with runtime.session(goal="g") as session:
        assert session.call("echo", {"text": name}).ok
    assert runtime.store.runs(limit=1)


def test_fifty_runtimes_on_one_file_have_four_connections_at_most(tmp_path: Path) -> None:
    path, most, done = tmp_path / "store.db", [], threading.Event()
    runtimes = [Runtime(path, skills=[echo], clock=FixedClock(seed=number)) for number in range(50)]

    def look() -> None:
        while not done.wait(0.01):
            most.append(len([each for each in OPEN if each.path == str(path)]))

    looking = threading.Thread(target=look)
    looking.start()
    workers = [threading.Thread(target=works, args=(runtime, "a")) for runtime in runtimes for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    done.set()
    looking.join()
    assert max(most) <= pool.READERS + 1
    assert [row.status for row in runtimes[0].store.runs()] == ["completed"] * 100
    for runtime in runtimes[1:]:
        runtime.close()
    works(runtimes[0], "the last one that has it open")
    runtimes[0].close()
    assert connections_in(tmp_path) == 0
    assert not Path(f"{path}-wal").exists()


def test_each_runtime_has_its_own_clock_on_the_connection_that_they_share(tmp_path: Path) -> None:
    clocks = [FixedClock(), FixedClock()]
    clocks[1].advance(86_400)
    runtimes = [Runtime(tmp_path / "store.db", skills=[echo], clock=clock) for clock in clocks]
    for runtime in runtimes:
        works(runtime, "a")
    days = [row.started_at[:10] for row in reversed(runtimes[0].store.runs())]
    assert days == [clock.timestamp()[:10] for clock in clocks]
    assert days[0] < days[1]
    for runtime in runtimes:
        runtime.close()


def test_what_was_dropped_is_closed_with_the_last_that_is_left(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    left = SqliteStore(str(path))
    for _ in range(30):
        works(Runtime(path, skills=[echo]), "a")
    assert connections_in(tmp_path) <= pool.READERS + 1
    left.close()
    assert connections_in(tmp_path) == 0


def test_what_one_closed_is_closed_to_it_alone(tmp_path: Path) -> None:
    ours, others = (SqliteStore(str(tmp_path / "store.db")) for _ in range(2))
    ours.close()
    for act in (ours.runs, lambda: ours._writer.query("SELECT 1"), lambda: ours.request_cancel("r", "n")):
        with pytest.raises(StoreError, match=r"was closed here|closed database"):
            act()
    ours.close()
    assert others.runs() == []
    others.request_cancel("r", "n")
    others.close()
    assert connections_in(tmp_path) == 0


def test_a_file_is_the_same_by_whatever_link_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    (tmp_path / "link.db").symlink_to(tmp_path / "link" / "store.db")
    stores = [SqliteStore(str(tmp_path / place)) for place in ("data/store.db", "link/store.db", "link.db")]
    for store in stores:
        assert store.runs() == []
    assert connections_in(tmp_path) == 2
    (tmp_path / "link").unlink()
    with pytest.raises(StoreGone, match=r"link/store\.db was moved"):
        stores[1].request_cancel("r", "n")
    for store in (stores[0], stores[2]):
        store.request_cancel("r", "n")
    (tmp_path / "data" / "store.db-wal").unlink()
    for store in stores:
        with pytest.raises(StoreGone):
            store.request_cancel("r", "n")
        store.close()


@pytest.mark.parametrize("ends", [("",), ("-wal",), ("", "-wal", "-shm")])
def test_what_came_in_the_place_of_a_file_is_another(ends: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    gone = SqliteStore(str(path))
    for end in ends:
        (tmp_path / f"store.db{end}").rename(tmp_path / f"away{end}")
    with pytest.raises(StoreGone):
        gone.request_cancel("r", "n")
    with suppress(StoreUnavailable):  # a log, or an index, without its file is refused
        again = SqliteStore(str(path))
        assert again._writer.file is not gone._writer.file
        again.close()
    gone.close()


def test_stores_in_memory_and_those_that_are_only_read_stay_apart(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    ours, reading = SqliteStore(path), SqliteStore(path, to_read=True)
    assert ours._writer.file is not reading._writer.file
    assert ours._writer.file.readers is not reading._readers._open
    assert SqliteStore(":memory:").store_id != SqliteStore(":memory:").store_id
    ours.close()
    assert reading.runs() == []
    reading.close()


def test_many_threads_that_open_a_new_store_at_once_make_one(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    stores: list[Any] = in_threads(lambda: SqliteStore(path), 20)
    assert len({store.store_id for store in stores}) == 1
    assert len({id(store._writer.file) for store in stores}) == 1
    for store in stores:
        store.close()


def test_an_interrupt_between_the_lock_and_its_transaction_leaves_neither(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_turn = Connection._in_turn

    def interrupted(self: Connection) -> None:
        in_turn(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Connection, "_in_turn", interrupted)
        store.request_cancel("r", "n")
    assert in_threads(lambda: store.request_cancel("r", "n"), 1) == [None]
    store.close()
