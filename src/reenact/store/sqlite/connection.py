"""One SQLite file: how it is opened, written, read and watched, and how its errors are told."""

from __future__ import annotations

import gc
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from sys import byteorder
from types import TracebackType
from typing import Any, Protocol, TypeVar
from weakref import WeakSet, finalize

from reenact.errors import DamagedRecord, StoreGone, StoreUnavailable, TooManyFiles
from reenact.store.compression import Codec
from reenact.store.damage import NO_SUCH, TELLS_MORE
from reenact.store.deltas import put_together
from reenact.store.sqlite.migrations import migrate, refuse_foreign
from reenact.store.sqlite.trouble.database_errors import DATABASE_ERRORS, is_busy, translate
from reenact.store.sqlite.trouble.forks import FORKS
from reenact.store.sqlite.trouble.waiting import LONGEST_PAUSE_S, LOOK_S, SHORTEST_PAUSE_S, Patience

try:
    import fcntl
    import resource
except ImportError:  # pragma: no cover  # only where the system has neither such locks nor limits
    fcntl = resource = None  # type: ignore[assignment]

T = TypeVar("T")

CHECKPOINT_PAGES = 500
"""About a hundred commits. Then the log begins again in blocks that it has: a log that grows costs each commit a second
write to the disk, of where its new blocks lie."""
PATIENCE_S = 2.0
FIRST_PAUSE_S = 0.003
AGING_S = 0.05
"""After waiting this long a process asks twice as often."""


class Reads(Protocol):
    """Whatever a store is read through: a connection, or those of a pool."""

    def query(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]: ...
    def unpack(self, stored: bytes) -> bytes: ...
    def envelope(self, stored: bytes) -> bytes: ...


class Connection:
    """A connection with what it needs for packing; used by one thread at a time."""

    def __init__(self, path: str, db: sqlite3.Connection | None = None) -> None:
        self.path = path
        FORGOTTEN.sweep()
        self.db = open_database(path) if db is None else db
        self.db.row_factory = checked_row
        self.cursor = self.db.cursor()
        """For the transaction at hand: a new cursor for each statement costs as much as a small statement."""
        self.unchecked = self.db.cursor()
        """For what is compared with what is known."""
        self.unchecked.row_factory = None
        self.codec = Codec()
        self.lock = threading.RLock()
        self._pid = os.getpid()
        self.files = Files(path)
        self._turnstile = Turnstile(path)
        self._patience, self._reading = Patience(path), Patience(path)
        OPEN.add(self)
        FORKS.users.add(self)

    def transaction(self) -> Connection:
        """BEGIN IMMEDIATE … COMMIT, as the context that a connection is; StoreGone where its file is not there."""
        self.check_files()
        return self

    def __enter__(self) -> sqlite3.Connection:
        """Begin a transaction; any error within rolls back, and a database error becomes a StoreError."""
        if self._pid != os.getpid():
            self.check_process()
        self.lock.acquire()
        try:
            self._turnstile.through(self._begin)
        except BaseException as error:
            self.lock.release()
            if isinstance(error, DATABASE_ERRORS):
                raise translate(error, self.path) from error
            raise
        return self.db

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
            self.db.close()
            self._turnstile.close()

    def __del__(self) -> None:
        """Nobody has it any more: closed as whoever closes it would, where a fork waits for it."""
        if getattr(self, "_pid", None) == os.getpid():
            with FORKS.inside():
                self.db.close()

    def leave_to_the_parent(self) -> None:
        """In a forked child."""
        INHERITED.append(self.db)
        self._turnstile.close()

    def check_process(self) -> None:
        """What SQLite remembers of its locks is wrong in a forked child, and to act on it damages the file."""
        if self._pid != os.getpid():
            raise StoreUnavailable(f"{self.path} was opened before this process was forked; open it again here")

    def check_files(self) -> None:
        """StoreGone where the store that was opened lies at its place no more: what is written there, nobody sees."""
        gone = self.files.gone()
        if gone is not None:
            self.check_process()
            raise StoreGone(self._save_log() if gone == "-wal" else self.files.lost(gone))

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


class Forgotten:
    """Closes what nobody has any more and nobody has closed: programs make a runtime for each request, and drop it.

    Seldom, since it takes a walk over all that the process has: when connections may have taken a third of the files
    that it may open, and many more are open than were in use the last time.
    """

    def __init__(self) -> None:
        self._at = 8

    def sweep(self) -> None:
        if len(OPEN) < self._at:
            return
        limit = 256 if resource is None else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        least = min(256, limit // 8)
        if len(OPEN) >= least:
            gc.collect()
        self._at = len(OPEN) + least // 2


FORGOTTEN = Forgotten()
OPEN: WeakSet[Connection] = WeakSet()
INHERITED: list[sqlite3.Connection] = []
"""Of the parent of a forked child, never to be closed there: SQLite would act on locks that the child does not have."""


def leave_all_to_the_parent() -> None:
    for connection in list(OPEN):
        connection.leave_to_the_parent()


os.register_at_fork(after_in_child=leave_all_to_the_parent)

WATCHED = ("", "-wal", "-shm")


class Files:
    """Database, log and index of an open store, each known by device and inode.

    While a connection is open none of them is ever replaced: SQLite writes in place, and takes log and index away with
    its last connection. So what is there no more, or is another file, was taken by somebody else.
    """

    def __init__(self, path: str) -> None:
        place = Path(path).absolute()  # wherever the process goes
        self.places = {} if path == ":memory:" else {name: f"{place}{name}" for name in WATCHED}
        self._seen = {name: seen for name, place in self.places.items() if (seen := file_of(place)) is not None}

    def gone(self, names: Sequence[str] = WATCHED) -> str | None:
        """The first that is not what it was, by how its name ends; None while all of them are."""
        for name in names:
            if name in self._seen and file_of(self.places[name]) != self._seen[name]:
                return name
        return None

    def are_those_of(self, other: Files) -> bool:
        return self._seen == other._seen

    def lost(self, name: str) -> str:
        """What to say, and what to do next."""
        path = self.places[""]
        if not name:
            return (
                f"{path} was moved, replaced or deleted while it was in use; put the file back beside its log "
                f"{path}-wal, which has the last commits, or restore a backup; then run `reenact recover`"
            )
        what = "has commits that the database does not have yet" if name == "-wal" else "keeps its writers apart"
        return (
            f"{path}{name} was moved, replaced or deleted while it was in use, and {what}: end the processes that use "
            f"{path}, put the file back where it was moved, then run `reenact recover`"
        )


def open_database(path: str) -> sqlite3.Connection:
    """To write, made if it is not there."""
    if path != ":memory:":
        prepare_folder(path)
        refuse_lone_log(path)
        refuse_taken_log(path)
        make_private(path)
    return opened(path, path, set_up)


def open_beside(path: str) -> sqlite3.Connection:
    """To read what another connection of this process has open, and keeps open; nothing is made."""
    return opened(path, f"{Path(path).absolute().as_uri()}?mode=rw", set_up_to_read)


@FORKS.inside()
def opened(path: str, name: str, prepare: Callable[[sqlite3.Connection, str], None]) -> sqlite3.Connection:
    try:
        return opened_once(path, name, prepare)
    except TooManyFiles:
        gc.collect()  # what nobody has any more may be enough
        return opened_once(path, name, prepare)


def opened_once(path: str, name: str, prepare: Callable[[sqlite3.Connection, str], None]) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(
            name, timeout=LOOK_S, isolation_level=None, check_same_thread=False, cached_statements=64,
            uri=name != path,
        )  # fmt: skip
    except sqlite3.Error as error:
        raise translate(error, path) from error
    try:
        # SQLite waits for most of it, but not for somebody who waits for us: where two turn on the log of a new file,
        # one of them has to begin again.
        Patience(path).wait_for(lambda: prepare(db, path))
    except BaseException as error:
        db.close()
        if isinstance(error, DATABASE_ERRORS):
            raise translate(error, path) from error
        if isinstance(error, OSError) and error.errno in TooManyFiles.numbers:
            raise TooManyFiles(path) from error
        raise
    return db


def set_up(db: sqlite3.Connection, path: str) -> None:
    refuse_foreign(db, path)
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal" and path != ":memory:":  # also one that somebody switched off by hand is on again
        raise StoreUnavailable(
            f"{path} cannot keep a write-ahead log (journal_mode stays {mode}), without which nothing is durable in "
            "order: keep it on a local disk, and end what else has it open"
        )
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA secure_delete = ON")  # an erased value leaves no bytes behind in free pages
    db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    migrate(db, path)
    db.execute("PRAGMA busy_timeout = 0")  # from here on we wait ourselves


def set_up_to_read(db: sqlite3.Connection, _path: str) -> None:
    db.execute("PRAGMA query_only = ON")
    db.execute("PRAGMA user_version").fetchone()  # SQLite opens a file only when it is asked for something in it
    db.execute("PRAGMA busy_timeout = 0")


def size_of(path: str) -> int:
    """0 where there is no such file."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def file_of(path: str) -> tuple[int, int] | None:
    """By which a file is known whatever it is called; None where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116  # asked four times a second
    except OSError:
        return None
    return status.st_dev, status.st_ino


def refuse_lone_log(path: str) -> None:
    """A log without its file holds commits that lie nowhere else, and SQLite deletes it when it opens a new one."""
    log = f"{path}-wal"
    if size_of(log) > 0 and size_of(path) == 0:  # in this order: a new store writes its file first
        raise StoreUnavailable(
            f"{path} is gone, and {log}, which has its last commits, is still there: put the file back beside it, or "
            "move the log away to begin a new store"
        )


def refuse_taken_log(path: str) -> None:
    """An index without its log says whether commits lay there that the database does not have.

    SQLite takes the index away before the log, so the two that were left by a crash are both there.
    """
    log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    for _ in range(2):  # a process may be opening it
        if log.exists() or size_of(str(index)) == 0:
            return
        time.sleep(LONGEST_PAUSE_S)
    with suppress(OSError):
        header = index.read_bytes()[:100]
        is_filled, in_log, in_database = header[12:13], *(header[at : at + 4] for at in (16, 96))
        if is_filled == b"\1" and int.from_bytes(in_log, byteorder) > int.from_bytes(in_database, byteorder):
            raise StoreUnavailable(
                f"{log} was taken away, and with it the last commits of {path}: put it back, or restore a backup; "
                f"where neither can be had, move {index} away, and runs may send again what they had sent"
            )


def make_private(path: str) -> None:
    """A store holds what tools said: a new one is its owner's alone. SQLite gives its log the mode of the file."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError:
        return  # it is there already, or cannot be made, which opening it says better


def refuse_folder(path: str) -> None:
    if Path(path).is_dir():
        raise StoreUnavailable(f"{path} is a folder; name a file, such as {path.rstrip('/')}/reenact.db")


def prepare_folder(path: str) -> None:
    target = Path(path)
    refuse_folder(path)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # a new one: it is for stores and their keys
    except OSError as error:
        raise StoreUnavailable(f"{target.parent} cannot be made: {error.strerror}") from None


# -- cells -------------------------------------------------------------------------------------------------------------

COLUMNS: dict[str, type] = {
    **dict.fromkeys(("run_no", "token", "expires_ms", "commit_n", "payload_id"), int),
    **dict.fromkeys(("run_id", "kind", "mode", "parent_run", "plan_id", "agent_id", "status", "started_at"), str),
    **dict.fromkeys(("owner", "cancel", "session", "trace_id", "step_id", "server", "tool", "key", "state"), str),
    **dict.fromkeys(("request_digest", "seal_digest", "day", "model", "exact", "kid", "public_key"), str),
    **dict.fromkeys(("schema", "store_id", "digest", "namespace", "idempotency_key", "next"), str),
    **dict.fromkeys(("body", "commitment", "dedupe_key", "content_key", "signature", "record", "secret"), bytes),
    **dict.fromkeys(("hash", "root", "line", "stamp", "note"), bytes),
    **dict.fromkeys(("size", "seen", "failures", "next_ms"), int),
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


class Turnstile:
    """Whose turn it is to write, when many processes write to one file: a place for the next writer.

    SQLite gives its write lock to whoever happens to ask when it is free, and lets those who wait ask less and less
    often: among twenty busy processes one may wait for seconds. Here a process becomes the next one first, by a lock on
    a file beside the store, which the system frees when it dies. Only the next asks SQLite, so nobody else can slip in;
    and those who wait to become it ask the more often the longer they have waited.

    It is about fairness alone. SQLite's own lock keeps writers apart, so a turn that cannot be had is simply done
    without: a process that was stopped while it was next holds the others up for a moment, not for good.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._is_open = False

    def through(self, begin: Callable[[], object]) -> None:
        """Begin to write as the next writer, or after having waited long enough to go without."""
        if not self._is_open:  # most connections only read
            self._open()
        descriptor, held = self._descriptor, None
        if descriptor is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = descriptor
            except BlockingIOError:
                held = descriptor if became_next(descriptor) else None
            except OSError:
                pass  # a turn that cannot be had is done without
        try:
            begin()
        finally:
            if held is not None:
                fcntl.flock(held, fcntl.LOCK_UN)

    def _open(self) -> None:
        self._is_open = True
        if fcntl is not None and self._path != ":memory:":
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW  # a link is somebody else's file
            with suppress(OSError):
                self._descriptor = os.open(f"{self._path}-turn", flags, 0o600)
                self._closing = finalize(self, os.close, self._descriptor)  # whoever drops it need not close it
                self._closing.atexit = False

    def close(self) -> None:
        if self._descriptor is not None:
            self._closing()
            self._descriptor = None


def became_next(descriptor: int) -> bool:
    """Wait for the place; False after having waited long enough to go without."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) <= PATIENCE_S:
        time.sleep(max(SHORTEST_PAUSE_S, FIRST_PAUSE_S / (1 + waited / AGING_S)))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except OSError:
            return False
        return True
    return False
