"""A copy of a store holds what only its log holds, and nothing that lay at its place before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.store.copies import back_up, copy_store, move_store, whole


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM t").fetchone()[0])


def write(path: Path) -> sqlite3.Connection:
    """A database whose only row is in its log, as long as the connection is open."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE t (x)")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.execute("INSERT INTO t VALUES (1)")
    Path(f"{path}.key").write_text("a key")
    return db


def test_a_copy_has_the_log_and_the_key(tmp_path: Path) -> None:
    store, copy = tmp_path / "store.db", tmp_path / "copy.db"
    with closing(write(store)):
        assert Path(f"{store}-wal").stat().st_size > 0
        assert whole(copy_store(store, copy)) == whole(store)
    assert rows(copy) == 1


def test_a_copy_keeps_nothing_of_what_lay_there(tmp_path: Path) -> None:
    store, other, copy = tmp_path / "store.db", tmp_path / "other.db", tmp_path / "copy.db"
    write(store).close()
    Path(f"{store}.key").unlink()
    with closing(write(other)):
        copy_store(other, copy)
    copy_store(store, copy)
    assert set(whole(copy)) == {""}
    assert rows(copy) == 1


def test_what_was_moved_is_gone_where_it_was(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with closing(write(store)):
        moved = move_store(store, tmp_path / "moved.db")
    assert whole(store) == {}
    assert rows(moved) == 1


def test_a_backup_is_one_file(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with closing(write(store)):
        copy = back_up(store, tmp_path / "copy.db")
    assert set(whole(copy)) == {""}
    assert rows(copy) == 1
