"""The files of a store: how they are opened, and whether they are still those that were."""

from __future__ import annotations

import gc
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from sys import byteorder

from reenact.errors import StoreUnavailable, TooManyFiles
from reenact.store.sqlite.migrations import migrate, refuse_foreign
from reenact.store.sqlite.trouble.database_errors import DATABASE_ERRORS, translate
from reenact.store.sqlite.trouble.forks import FORKS
from reenact.store.sqlite.trouble.waiting import LONGEST_PAUSE_S, LOOK_S, Patience

CHECKPOINT_PAGES = 500
"""About a hundred commits. Then the log begins again in blocks that it has: a log that grows costs each commit a second
write to the disk, of where its new blocks lie."""

WATCHED = ("", "-wal", "-shm")
LEFT_OPEN: set[tuple[int, int]] = set()
"""In a forked child: files of the parent that SQLite would take for open here too, without their locks."""
LOG_BEGINS = b"\x37\x7f\x06"


class Files:
    """Database, log and index of an open store, each known by device and inode.

    While a connection is open none of them is ever replaced: SQLite writes in place, and takes log and index away with
    its last connection. So what is there no more, or is another file, was taken by somebody else; so was what lay in a
    file that is empty.
    """

    def __init__(self, path: str) -> None:
        place = Path(path).absolute()  # wherever the process goes
        real = os.path.realpath(place)  # where SQLite keeps the log of a file that it found by a link
        self.places = {} if path == ":memory:" else {name: f"{real if name else place}{name}" for name in WATCHED}
        self._seen = {name: seen for name, place in self.places.items() if (seen := file_of(place)) is not None}

    def gone(self, names: Sequence[str] = WATCHED) -> str | None:
        """The first that is not what it was, by how its name ends; None while all of them are."""
        for name in names:
            if name in self._seen and not self._is_there(name):
                return name
        empty = (name for name in ("", "-shm") if name in names and name in self._seen)
        return next((name for name in empty if size_of(self.places[name]) == 0), None)

    def _is_there(self, name: str) -> bool:
        """And no link to where it was moved: beside that nobody would look for the log."""
        place = self.places[name]
        return file_of(place) == self._seen[name] and not os.path.islink(place)  # noqa: PTH114  # as above

    def begins_as_a_log(self) -> bool | None:
        """Whether the log does, as one does that holds anything; None where it is empty, as it is before a commit."""
        if "-wal" not in self._seen:
            return True
        try:
            with open(self.places["-wal"], "rb", buffering=0) as log:  # noqa: PTH123  # asked four times a second
                first = log.read(len(LOG_BEGINS))
        except OSError:
            return True  # that it is gone is told by others
        return first == LOG_BEGINS if first else None

    @property
    def identity(self) -> tuple[tuple[int, int], ...]:
        """Of the database; nothing of one in memory."""
        return tuple(seen for name, seen in self._seen.items() if not name)

    def are_those_of(self, other: Files) -> bool:
        return self._seen == other._seen

    def lost(self, name: str) -> str:
        """What to say, and what to do next."""
        path = self.places[""]
        if not name:
            return (
                f"{path} was moved, replaced, emptied or deleted while it was in use; put the file back beside its log "
                f"{path}-wal, which has the last commits, or restore a backup; then run `reenact recover`"
            )
        what = "has commits that the database does not have yet" if name == "-wal" else "keeps its writers apart"
        return (
            f"{path}{name} was moved, replaced, emptied or deleted while it was in use, and {what}: end the processes "
            f"that use {path}, put the file back where it was moved, else restore a backup; then run `reenact recover`"
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
    if LEFT_OPEN and file_of(path) in LEFT_OPEN:
        raise StoreUnavailable(
            f"{path} was in the midst of its use when this process was forked, so that SQLite here takes it for open, "
            "without its locks: open it in a process that is started anew"
        )
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
