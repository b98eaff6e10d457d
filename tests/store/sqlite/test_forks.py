"""A forked child finds SQLite free, whatever the threads of its parent were doing."""

from __future__ import annotations

import importlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import StoreUnavailable
from reenact.store.open import open_store
from reenact.store.sqlite.opened.shared import OpenFile
from reenact.store.sqlite.store import SqliteStore
from reenact.store.sqlite.trouble import forks
from reenact.store.sqlite.trouble.forks import FORKS
from reenact.values.threads import once

FORKED = 40
LONG_S = 20.0
LEAVES_AFTER_S = 0.5


@skill("t.note", version="1.0.0", tool_class="read")
def note(x: int) -> int:
    return x


def run(path: Path) -> None:
    """A runtime that nobody closes, as programs have it."""
    with Runtime(f"sqlite:///{path}", skills=[note]).session() as session:
        assert session.call("t.note", {"x": 1}).output == 1


def ends_well(work: Callable[[], object]) -> bool:
    """Whether a forked child comes to its end with it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def test_children_that_are_forked_amid_the_work_of_threads_do_theirs(tmp_path: Path) -> None:
    stop = threading.Event()

    def churn(name: str) -> None:
        while not stop.is_set():
            run(tmp_path / name)

    threads = [threading.Thread(target=churn, args=(f"{number}.db",)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        ended = [ends_well(lambda number=number: run(tmp_path / f"child{number}.db")) for number in range(FORKED)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert ended == [True] * FORKED


def left_before_the_fork(work: AbstractContextManager[object]) -> bool:
    """Whether a fork comes after another thread has left `work`, which it does a moment later."""
    within, leave, left = threading.Event(), threading.Event(), threading.Event()

    def other() -> None:
        with work:
            within.set()
            leave.wait()
            left.set()

    thread = threading.Thread(target=other)
    thread.start()
    within.wait()
    threading.Timer(LEAVES_AFTER_S, leave.set).start()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if left.is_set() else 1)
    was_left = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    leave.set()
    thread.join()
    return was_left


def test_a_fork_waits_for_who_opens_a_store_and_for_a_transaction(tmp_path: Path) -> None:
    assert left_before_the_fork(FORKS.inside())
    store = open_store(tmp_path / "store.db")
    assert isinstance(store, SqliteStore)
    assert left_before_the_fork(store._writer)
    assert left_before_the_fork(store._writer.lock)
    store.close()


def in_a_child(work: Callable[[], object]) -> tuple[int, int]:
    """Its number, and where it is told to begin. It has left to its parent what it shall, when this returns."""
    heard, begin = os.pipe()
    there, is_there = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.write(is_there, b"x")
            os.read(heard, 1)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.read(there, 1)
    return pid, begin


def ended_well(pid: int, begin: int) -> bool:
    os.write(begin, b"x")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_child_that_opens_a_store_of_its_parent_keeps_out_of_what_others_write(tmp_path: Path) -> None:
    """SQLite took the file for open, with the locks of the parent: two wrote at once."""
    path = tmp_path / "store.db"
    assert ends_well(lambda: run(path))
    of_parent = open_store(path)

    def work() -> None:
        store = SqliteStore(str(path))
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            store._writer.db.execute("BEGIN IMMEDIATE")

    child = in_a_child(work)
    of_parent.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as another:
        another.execute("BEGIN IMMEDIATE")
        assert ended_well(*child)


def test_a_parent_that_closes_its_store_takes_no_log_from_its_child(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    of_parent = open_store(path)
    opened, told = os.pipe()

    def work() -> None:
        store = SqliteStore(str(path))
        os.write(told, b"x")
        os.read(heard, 1)
        store._writer.check_files()
        run(path)

    heard, closed = os.pipe()
    pid, begin = in_a_child(work)
    os.write(begin, b"x")
    os.read(opened, 1)
    of_parent.close()
    os.write(closed, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_program_that_forks_twice_as_daemons_do_opens_its_store_in_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run(path)
    kept = Runtime(f"sqlite:///{path}", skills=[note])
    assert ends_well(lambda: once_more(lambda: run(path)))
    kept.close()


def once_more(work: Callable[[], object]) -> None:
    if not ends_well(work):
        raise AssertionError("it did not end well")


def test_a_store_that_was_in_the_midst_of_its_use_is_not_opened_in_the_child(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = open_store(path)
    assert isinstance(store, SqliteStore)

    def work() -> None:
        with pytest.raises(StoreUnavailable, match="started anew"):
            SqliteStore(str(path))
        run(tmp_path / "another.db")

    with store._writer:
        child = in_a_child(work)
    assert ended_well(*child)
    store.close()


def test_a_fork_waits_for_a_module_that_a_thread_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a child that needs the module waits for ever for who imports it."""
    code = "import time\nfrom pathlib import Path\nPath(__file__).with_name('begun').touch()\ntime.sleep(0.2)\n"
    (tmp_path / "slowly_imported.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    thread = threading.Thread(target=lambda: importlib.import_module("slowly_imported"))
    thread.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.001)
    assert ends_well(lambda: importlib.import_module("slowly_imported"))
    thread.join()


class Meanwhile:
    """While a fork comes to it, another thread opens a store."""

    def __init__(self) -> None:
        self.opened: list[OpenFile] = []
        self.thread = threading.Thread(target=self.open)

    def open(self) -> None:
        self.opened.append(OpenFile(":memory:", sqlite3.connect(":memory:", check_same_thread=False)))

    @property
    def lock(self) -> threading.Lock:
        self.thread.start()
        self.thread.join(0.2)
        return threading.Lock()


def test_what_is_opened_while_a_fork_waits_keeps_nobody_out_for_good() -> None:
    meanwhile = Meanwhile()
    FORKS.users.add(meanwhile)
    try:
        FORKS.wait()
    finally:
        FORKS.users.discard(meanwhile)
        FORKS.go_on()
    meanwhile.thread.join(LONG_S)
    assert meanwhile.opened
    entered = threading.Event()

    def enter() -> None:
        with FORKS.inside():
            entered.set()

    threading.Thread(target=enter, daemon=True).start()
    assert entered.wait(LONG_S)


def gate_is_free() -> bool:
    if not FORKS._gate.acquire(timeout=0):
        return False
    FORKS._gate.release()
    return True


def test_threads_that_fork_at_the_same_time_give_back_what_each_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes while another forks, and cannot wait any longer, forks too: the first one's are still its own."""
    monkeypatch.setattr(forks, "PATIENCE_S", 0.05)
    FORKS.wait()
    try:
        other = threading.Thread(target=lambda: (FORKS.wait(), FORKS.go_on()))
        other.start()
        other.join(LONG_S)
    finally:
        FORKS.go_on()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(gate_is_free).result()


FIRST_IMPORT = """
import faulthandler, importlib, os, threading, time
import reenact
thread = threading.Thread(target=lambda: importlib.import_module("slowly_imported"))
thread.start()
while not os.path.exists("begun"):
    time.sleep(0.001)
pid = os.fork()
if pid == 0:
    faulthandler.dump_traceback_later(5, exit=True)
    importlib.import_module("slowly_imported")
    os._exit(0)
thread.join()
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_fork_waits_also_before_any_store_was_opened(tmp_path: Path) -> None:
    """The first thread that makes a runtime imports the store, and a server may fork right then."""
    slow = "import time\nopen('begun', 'w').close()\ntime.sleep(0.5)\n"
    (tmp_path / "slowly_imported.py").write_text(slow)
    command = [sys.executable, "-c", FIRST_IMPORT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_fork_waits_until_a_thread_that_ended_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL takes a lock of all threads once more when one is gone: a child would wait for that one for ever."""
    seen = iter([{7}, {7}, set[int](), {9}])
    monkeypatch.setattr(forks, "EXIT_S", LONG_S)
    monkeypatch.setattr(forks, "unknown_threads", lambda: next(seen))
    FORKS.wait()
    FORKS.go_on()
    assert next(seen) == {9}, "looked until it was gone, and then no more: a look lets others run, and end"


def test_a_module_that_is_imported_while_a_fork_waits_for_exits_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    importing = iter([False, True, False, False])
    monkeypatch.setattr(forks, "unknown_threads", lambda: order.append("exits") or set())
    monkeypatch.setattr(forks, "imported_elsewhere", lambda: order.append("imports") or next(importing))
    FORKS.wait()
    FORKS.go_on()
    assert order == ["imports", "exits", "imports"] * 2


def test_a_thread_that_python_never_knew_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[set[int]] = []
    monkeypatch.setattr(forks, "EXIT_S", 0.0)
    monkeypatch.setattr(forks, "unknown_threads", lambda: looks.append({7}) or {7})
    FORKS.wait()
    FORKS.go_on()
    monkeypatch.setattr(forks, "EXIT_S", LONG_S)
    FORKS.wait()
    FORKS.go_on()
    assert len(looks) == 2, "once each: it is no thread that ends"


def test_what_takes_long_is_not_waited_for_and_the_next_fork_waits_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(forks, "PATIENCE_S", 0.01)
        assert not left_before_the_fork(FORKS.inside())
    assert left_before_the_fork(FORKS.inside())


def test_a_value_that_a_thread_computes_is_not_waited_for_in_a_child() -> None:
    asked, answer = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, *, is_slow: bool) -> None:
            self.is_slow = is_slow

        @once
        def value(self) -> int:
            if self.is_slow:
                asked.set()
                answer.wait()
            return 1

    thread = threading.Thread(target=lambda: Slow(is_slow=True).value)
    thread.start()
    asked.wait()
    assert ends_well(lambda: Slow(is_slow=False).value)
    answer.set()
    thread.join()
