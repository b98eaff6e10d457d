"""A connection to one SQLite file: how it is written and read through, and how its errors are told."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from types import TracebackType
from typing import Any, Final, NoReturn, Protocol

from reenact.errors import DamagedRecord, StoreBusy, StoreError, StoreGone, StoreUnavailable
from reenact.store.damage import NO_SUCH, TELLS_MORE
from reenact.store.deltas import put_together
from reenact.store.sqlite.opened import shared as shared_module
from reenact.store.sqlite.opened.files import WATCHED, Files, file_of, open_beside, open_database
from reenact.store.sqlite.opened.shared import FORGOTTEN, OpenFile
from reenact.store.sqlite.opened.turnstile import became_next
from reenact.store.sqlite.trouble.database_errors import DATABASE_ERRORS, is_busy, is_read_only, translate
from reenact.store.sqlite.trouble.waiting import BUSY_TIMEOUT_S

try:
    import fcntl
except ImportError:  # pragma: no cover  # only where the system has no such locks
    fcntl = None  # type: ignore[assignment]

CLOSED = sqlite3.connect(":memory:", check_same_thread=False)
"""What a connection is once it was closed, whoever goes on with what it shared."""
CLOSED_CURSOR = CLOSED.cursor()
CLOSED.close()


class Reads(Protocol):
    """Whatever a store is read through: a connection, or those of a pool."""

    def query(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]: ...
    def unpack(self, stored: bytes) -> bytes: ...
    def envelope(self, stored: bytes) -> bytes: ...


class Connection:
    """A connection as one store has it, alone or with others of this process; used by one thread at a time.

    With `shared` it is that of `SHARED`; else one of its own, `db` where there is one already.
    """

    def __init__(self, path: str, db: sqlite3.Connection | None = None, *, shared: bool = False) -> None:
        self.path = path
        self._shared_by = shared_module.SHARED if shared else None
        file = self.file = alone(path, db) if self._shared_by is None else self._shared_by.open(path, self)
        self.files = Files(path)
        self.db = file.db
        self.db.row_factory = checked_row
        self.cursor = self.db.cursor()
        """For the transaction at hand: a new cursor for each statement costs as much as a small statement."""
        self.unchecked = self.db.cursor()
        """For what is compared with what is known."""
        self.unchecked.row_factory = None
        self.codec, self.lock = file.codec, file.lock
        self._pid = file.pid
        self._turnstile = file.turnstile
        self._patience, self._reading = file.patience, file.reading

    def transaction(self) -> Connection:
        """BEGIN IMMEDIATE … COMMIT, as the context that a connection is; StoreGone where its file is not there."""
        self.check_files()
        return self

    def __enter__(self) -> sqlite3.Connection:
        """Begin a transaction; any error within rolls back, and a database error becomes a StoreError."""
        if self._pid != os.getpid():
            self.check_process()
        is_first = False
        try:
            if not self.lock.acquire(timeout=BUSY_TIMEOUT_S):
                self._refuse()
            is_first = not self.db.in_transaction
            self._in_turn()
        except BaseException as error:  # an interrupt too, wherever it comes between two instructions
            if is_first and self.db.in_transaction:
                self.db.execute("ROLLBACK")
            if self.lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001  # nothing else tells
                self.lock.release()
            if isinstance(error, DATABASE_ERRORS):
                raise translate(error, self.path) from error
            raise
        return self.db

    def _refuse(self) -> NoReturn:
        raise StoreBusy(
            f"{self.path} was busy for {BUSY_TIMEOUT_S:.0f} s; another thread of this process holds it; try again"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            try:
                if kind is None:
                    self.cursor.execute("COMMIT")
            finally:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
        except DATABASE_ERRORS as failed:
            raise translate(failed, self.path) from failed
        finally:
            self.lock.release()
        if isinstance(error, (sqlite3.Error, OverflowError)):
            raise translate(error, self.path) from error

    def _in_turn(self) -> None:
        """Begin to write as the next writer, or after having waited long enough to go without."""
        if not self._turnstile.is_open:  # most connections only read
            self._turnstile.open()
        place, held = self._turnstile.descriptor, None
        if place is not None:
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = place
            except BlockingIOError:
                held = place if became_next(place) else None
            except OSError:
                pass  # a turn that cannot be had is done without
        try:
            self._begin()
        finally:
            if held is not None:
                fcntl.flock(held, fcntl.LOCK_UN)

    def _begin(self) -> None:
        try:
            self.cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            self._patience.wait_for(lambda: self.cursor.execute("BEGIN IMMEDIATE"), self.db)
        self._patience.gave_up = False

    def close(self) -> None:
        if self._pid != os.getpid():
            return  # it is the parent's
        with self.lock:  # not in the middle of somebody's transaction
            self.db, self.cursor, self.unchecked = CLOSED, CLOSED_CURSOR, CLOSED_CURSOR
        if self._shared_by is None:
            self.file.close()
        else:
            self._shared_by.leave(self.file, self)

    def check_process(self) -> None:
        """What SQLite remembers of its locks is wrong in a forked child, and to act on it damages the file."""
        if self._pid != os.getpid():
            raise StoreUnavailable(f"{self.path} was opened before this process was forked; open it again here")

    def check_files(self) -> None:
        """StoreGone where the store that was opened lies at its place no more: what is written there, nobody sees."""
        gone = self.gone()
        if gone is not None:
            self.check_process()
            raise StoreGone(self._save_log() if gone == "-wal" else self.files.lost(gone))

    def gone(self, names: Sequence[str] = WATCHED) -> str | None:
        """The first of its files that is not what it was, by how its name ends; None while all of them are."""
        gone = self.files.gone(names)
        if gone is None and "-wal" in names:
            begins = self.files.begins_as_a_log()
            if begins is False or (begins is None and self._misses_commits()):
                return "-wal"
        return gone

    def _misses_commits(self) -> bool:
        """Whether the index tells of commits that an empty log does not have; not asked while somebody writes."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            (_, pages, moved) = self.db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except DATABASE_ERRORS as error:
            return isinstance(error, sqlite3.Error) and not is_busy(error) and not is_read_only(error)
        finally:
            self.lock.release()
        return bool(pages > moved)

    def _save_log(self) -> str:
        """A log that was deleted is still open here: where nobody began another, its commits go into the database."""
        if file_of(self.files.places["-wal"]) is None and self.files.gone(("",)) is None:
            with suppress(*DATABASE_ERRORS), self.lock:
                (busy, pages, moved) = self.db.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
                if not busy and pages == moved:
                    return (
                        f"{self.path}-wal was moved or deleted while it was in use; the commits in it were saved into "
                        f"{self.path}: end this process, then run `reenact recover`"
                    )
        return self.files.lost("-wal")

    def query(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        self.check_process()
        with self.lock:
            try:
                return self._reading.wait_for(lambda: self.db.execute(sql, parameters).fetchall())
            except DATABASE_ERRORS as error:
                raise translate(error, self.path) from error

    def unpack(self, stored: bytes) -> bytes:
        with self.lock:
            return self.codec.unpack(stored)

    def envelope(self, stored: bytes) -> bytes:
        """An envelope as it was given, whatever rows it has to be put together from."""
        with self.lock:
            return put_together(self.codec, stored, self._stored)

    def _stored(self, payload_id: int) -> bytes | None:
        rows = self.query("SELECT id, body FROM payloads WHERE id = ?", (payload_id,))
        return rows[0][1] if rows else None


def alone(path: str, db: sqlite3.Connection | None) -> OpenFile:
    """A connection that nobody shares."""
    FORGOTTEN.sweep()
    return OpenFile(path, open_database(path) if db is None else db)


# -- what was written here ---------------------------------------------------------------------------------------------

MOST_OWN: Final = 256
FIND_OWN: Final = "SELECT c.digest FROM runs r JOIN commits c ON c.id = (r.run_no << 24 | ?) WHERE r.run_id = ?"


class OwnCommits:
    """Some of them, from the first to the last: the more there are, the fewer of each hundred.

    A database in use is written to when its log is moved into it, about every hundred commits, and by nobody else. A
    backup that is copied over it leaves the same file, with its log beside it: what is read again, or was in the log,
    is of today, and the rest is gone. A connection of its own, which remembers no pages, finds that.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._some: list[tuple[str, int, str]] = []
        self._every, self._left = 1, 1
        self._written = written(path)

    def add(self, run_id: str, n: int, head: str) -> None:
        self._left -= 1
        if self._left:
            return
        if len(self._some) >= MOST_OWN:
            self._some, self._every = self._some[::2], self._every * 2
        self._some.append((run_id, n, head))
        self._left = self._every

    def are_lost(self) -> bool:
        """Asked again and again; looked for only where the file was written to since the last time."""
        now = written(self._path)
        if now == self._written or not self._some:
            self._written = now
            return False
        try:
            with closing(open_beside(self._path)) as db:
                lost = any(digest_of(db, run_id, n) != head for run_id, n, head in self._some)
        except (StoreError, sqlite3.Error) as error:
            raised = error.__cause__ if isinstance(error, StoreError) else error
            # Nonsense, and not merely busy.
            return isinstance(raised, sqlite3.DatabaseError) and not isinstance(raised, sqlite3.OperationalError)
        if not lost:
            self._written = now
        return lost


def digest_of(db: sqlite3.Connection, run_id: str, n: int) -> str | None:
    row = db.execute(FIND_OWN, (n, run_id)).fetchone()
    return row[0].hex() if row is not None and isinstance(row[0], bytes) else None


def written(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116  # asked four times a second
    except OSError:
        return None  # that it is gone is told by others
    return status.st_mtime_ns, status.st_size


# -- cells -------------------------------------------------------------------------------------------------------------

COLUMNS: dict[str, type] = {
    **dict.fromkeys(("run_no", "token", "expires_ms", "commit_n", "payload_id"), int),
    **dict.fromkeys(("run_id", "kind", "mode", "parent_run", "plan_id", "agent_id", "status", "started_at"), str),
    **dict.fromkeys(("owner", "cancel", "session", "trace_id", "step_id", "server", "tool", "key", "state"), str),
    **dict.fromkeys(("request_digest", "seal_digest", "day", "model", "exact", "kid", "public_key"), str),
    **dict.fromkeys(("schema", "store_id", "digest", "namespace", "idempotency_key", "next"), str),
    **dict.fromkeys(("body", "commitment", "dedupe_key", "content_key", "signature", "record", "secret"), bytes),
    **dict.fromkeys(("hash", "root", "line", "stamp", "note", "sums"), bytes),
    **dict.fromkeys(("size", "seen", "failures", "next_ms", "sealed"), int),
    **dict.fromkeys(("witness", "place", "source", "name", "url", "trouble", "bundle"), str),
}
"""What the columns hold that runs go on from. SQLite keeps whatever is put into a cell. Not here: numbers of rows,
which are whole; what is compared as it is (`mac`, `frontier`); and a name that two tables use otherwise (`value`)."""
MAY_BE_NULL = (
    *("parent_run", "owner", "cancel", "session", "request_digest", "record", "store_id", "secret", "next", "trouble"),
)


def checked_row(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The one place where cells are read to go on from: DamagedRecord for one that holds another kind of value."""
    for column, cell in zip(cursor.description, row, strict=True):
        kind = COLUMNS.get(column[0])
        if kind is not None and type(cell) is not kind and not (cell is None and column[0] in MAY_BE_NULL):
            raise DamagedRecord(f"{named(cursor, row)}{column[0]}: {NO_SUCH[kind]}; {TELLS_MORE}")
    return row


def named(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> str:
    """By its first cell, where that is what names it."""
    name = cursor.description[0][0]
    return f"{name} {row[0]}, " if name in ("id", "run_no", "run_id", "kid") and type(row[0]) in (int, str) else ""
