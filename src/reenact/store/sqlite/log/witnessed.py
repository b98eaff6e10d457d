"""What a witness remembers, in a small SQLite file of its own: for each log every head that it put its name to."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from reenact.errors import DamagedRecord, StoreUnavailable
from reenact.store.log.witnessed import Seen
from reenact.store.sqlite.opened.files import make_private, prepare_folder
from reenact.store.sqlite.trouble.database_errors import DATABASE_ERRORS, translate

APPLICATION_ID = 0x52656577
"""`Reew`, by which a file says that it is a witness's."""
BUSY_S = 5.0
SCHEMA = """
CREATE TABLE witness (id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL);
CREATE TABLE heads (
    origin TEXT NOT NULL, size INTEGER NOT NULL, root BLOB NOT NULL, time INTEGER NOT NULL, note BLOB NOT NULL,
    PRIMARY KEY (origin, size)
) WITHOUT ROWID;
CREATE TRIGGER heads_are_not_updated BEFORE UPDATE ON heads
BEGIN SELECT RAISE(ABORT, 'heads are append-only'); END;
CREATE TRIGGER heads_are_not_deleted BEFORE DELETE ON heads
BEGIN SELECT RAISE(ABORT, 'heads are append-only'); END;
CREATE TRIGGER heads_only_grow BEFORE INSERT ON heads
WHEN EXISTS (SELECT 1 FROM heads WHERE origin = NEW.origin AND size >= NEW.size)
BEGIN SELECT RAISE(ABORT, 'heads are append-only'); END;
"""
LATEST = "SELECT size, root, time, note FROM heads WHERE origin = ? ORDER BY size DESC LIMIT 1"


class SqliteWitnessed:
    """`reenact.store.log.witnessed.Witnessed` in one file, durable before anything that it holds is signed."""

    def __init__(self, path: str, *, name: str | None) -> None:
        self.path = path
        self._lock = threading.Lock()
        if name is None and not Path(path).exists():
            raise StoreUnavailable(f"there is no witness at {path}; a new one needs a name: --name example.org/witness")
        prepare_folder(path)
        make_private(path)
        try:
            self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._set_up(name)
        except DATABASE_ERRORS as error:
            raise translate(error, path) from error
        self.name = self._named()

    def _set_up(self, name: str | None) -> None:
        self._db.execute("PRAGMA synchronous = EXTRA")
        self._db.execute("BEGIN IMMEDIATE")
        try:
            (mark,) = self._db.execute("PRAGMA application_id").fetchone()
            (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if mark != APPLICATION_ID and (mark or tables):
                raise StoreUnavailable(f"{self.path} is no witness's file but another database; name another one")
            if mark == 0:
                if name is None:
                    raise StoreUnavailable(f"{self.path} is empty: a new witness needs a name: --name")
                self._begin(name)
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _begin(self, name: str) -> None:
        pending = ""
        for line in SCHEMA.splitlines(keepends=True):
            pending += line
            if sqlite3.complete_statement(pending):
                self._db.execute(pending)
                pending = ""
        self._db.execute("INSERT INTO witness VALUES (1, ?)", (name,))
        self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def _named(self) -> str:
        rows = self._query("SELECT name FROM witness")
        if not rows or not isinstance(rows[0][0], str):
            raise DamagedRecord(f"{self.path}: the witness has no name any more; restore a backup")
        return rows[0][0]

    def _query(self, sql: str, *values: object) -> list[Any]:
        with self._lock:
            try:
                return self._db.execute(sql, values).fetchall()
            except DATABASE_ERRORS as error:
                raise translate(error, self.path) from error

    def latest(self, origin: str) -> Seen | None:
        rows = self._query(LATEST, origin)
        return seen_of(self.path, rows[0]) if rows else None

    def logs(self) -> list[tuple[str, int]]:
        return self._query("SELECT origin, max(size) FROM heads GROUP BY origin ORDER BY origin LIMIT 10000")

    def advance(self, origin: str, judge: Callable[[Seen | None], Seen | None]) -> None:
        """What `judge` gives for the latest head of a log is put behind it, and durable; nothing where that is None."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                with closing(self._db.execute(LATEST, (origin,))) as cursor:
                    rows = cursor.fetchall()
                new = judge(seen_of(self.path, rows[0]) if rows else None)
                if new is not None:
                    self._db.execute("INSERT INTO heads VALUES (?, ?, ?, ?, ?)", (origin, *new))
                self._db.execute("COMMIT")
            except DATABASE_ERRORS as error:
                raise translate(error, self.path) from error
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def close(self) -> None:
        with self._lock:
            self._db.close()


def seen_of(path: str, row: tuple[object, ...]) -> Seen:
    size, root, time, note = row
    if type(size) is int and type(root) is bytes and type(time) is int and type(note) is bytes and len(root) == 32:
        return Seen(size, root, time, note)
    raise DamagedRecord(f"{path}: a head cannot be read, and nothing more is signed; restore a backup")
