"""Twenty processes on one file: nobody is told that it is locked, nothing is lost, nobody starves."""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from reenact.errors import StoreBusy
from reenact.store.sqlite.opened import files
from reenact.store.sqlite.opened.turnstile import Turnstile
from reenact.store.sqlite.store import SqliteStore
from reenact.store.sqlite.trouble import waiting
from tests.store.sqlite.crowd import check, gather

SECONDS = 3
SMALLEST_SHARE = 1 / 5
"""Of what each would have if all had the same; on two cores it is above a half."""


def test_twenty_processes_write_to_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    members = gather(tmp_path, processes=20, seconds=SECONDS)
    line = check(tmp_path, members)
    with capsys.disabled():
        print(f"\n{line}")
    totals = [member.total for member in members]
    assert min(totals) * len(totals) > sum(totals) * SMALLEST_SHARE


def test_a_process_that_is_stopped_while_it_is_next_does_not_stop_the_others(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    store = SqliteStore(path)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        turnstile = Turnstile(path)
        turnstile.open()
        assert turnstile.descriptor is not None
        fcntl.flock(turnstile.descriptor, fcntl.LOCK_EX)
        os.write(write_end, b"x")
        signal.pause()
        os._exit(0)
    os.read(read_end, 1)
    try:
        store.request_cancel("nobody", "{}")  # any write: it waits for its turn, then goes without
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_file_that_stays_locked_is_busy_and_nothing_worse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "store.db")
    store = SqliteStore(path)
    monkeypatch.setattr(waiting, "BUSY_TIMEOUT_S", 0.05)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy) as refused:
            store.request_cancel("nobody", "{}")
        other.execute("ROLLBACK")
    assert (refused.value.code, refused.value.exit_code) == ("STORE_BUSY", 3)
    store.request_cancel("nobody", "{}")


def test_who_is_told_at_once_that_others_are_making_the_store_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite does so where two would wait for each other, now and then when twenty open a new file together."""
    path, tries, set_up = str(tmp_path / "store.db"), [], files.set_up

    def busy_at_first(db: sqlite3.Connection, of: str) -> None:
        tries.append(of)
        if len(tries) < 3:
            other = sqlite3.connect(path, isolation_level=None, timeout=0)
            other.execute("BEGIN EXCLUSIVE")
            try:
                sqlite3.connect(path, isolation_level=None, timeout=0).execute("BEGIN EXCLUSIVE")
            finally:
                other.close()
        set_up(db, of)

    monkeypatch.setattr(files, "set_up", busy_at_first)
    SqliteStore(path).close()
    assert len(tries) == 3
