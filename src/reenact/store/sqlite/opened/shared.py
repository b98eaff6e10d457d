"""A store file that is open in this process: one connection that writes, and the few that read, for all who opened it.

A service may make a runtime for each request, or several of one file: they share what is open here, so that a process
has few connections to each file. Whoever opens it has a view of its own (`Connection`), with its own path, and the last
one that closes its view, or is dropped, closes the file.
"""

from __future__ import annotations

import gc
import os
import sqlite3
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING
from weakref import WeakSet, WeakValueDictionary

from reenact.errors import StoreUnavailable
from reenact.store.compression import Codec
from reenact.store.sqlite.migrations import migrate
from reenact.store.sqlite.opened.files import LEFT_OPEN, Files, file_of, open_database
from reenact.store.sqlite.opened.turnstile import Turnstile
from reenact.store.sqlite.trouble.database_errors import DATABASE_ERRORS, translate
from reenact.store.sqlite.trouble.forks import FORKS
from reenact.store.sqlite.trouble.waiting import Patience

if TYPE_CHECKING:
    from reenact.store.sqlite.connection import Connection

try:
    import resource
except ImportError:  # pragma: no cover  # only where the system has no such limits
    resource = None  # type: ignore[assignment]


class OpenFile:
    """One connection with what it needs for packing and for waiting; used by one thread at a time, under its lock."""

    def __init__(self, path: str, db: sqlite3.Connection) -> None:
        self.path = path
        self.files = Files(path)
        self.db = db
        self.lock = threading.RLock()
        self.pid = os.getpid()
        self.codec = Codec()
        self.turnstile = Turnstile(path)
        self.patience, self.reading = Patience(path), Patience(path)
        self.readers = OpenReaders()
        self.users: WeakSet[Connection] = WeakSet()
        self.is_closed = False
        OPEN.add(self)
        FORKS.join(self)

    def __del__(self) -> None:
        """Nobody has it any more: closed as whoever closes it would, where a fork waits for it."""
        if getattr(self, "pid", None) == os.getpid():
            with FORKS.inside():
                self.db.close()

    def close(self) -> None:
        self.readers.close()
        with self.lock:  # not in the middle of somebody's transaction
            self.db.close()
            self.turnstile.close()
        OPEN.discard(self)

    def leave_to_the_parent(self) -> None:
        """In a forked child, which must not go on as if it had the locks of its parent: SQLite believes that it does.

        Closed, unless somebody was in the middle of something, or the files are others by now: then none of them is
        opened here any more.
        """
        OPEN.discard(self)  # a child of this one inherits what is left of it from here
        self.turnstile.close()
        if FORKS.was_waited_for(self) and not is_in_transaction(self.db) and self.files.gone() is None:
            self.db.close()
        else:
            INHERITED.append(self.db)
            LEFT_OPEN.update(self.files.identity)


class OpenReaders:
    """The connections that read a file, and those of them that nobody uses now."""

    def __init__(self) -> None:
        self.free: SimpleQueue[Connection] = SimpleQueue()
        self.all: WeakSet[Connection] = WeakSet()
        """Weak: one that an interrupt took from its reader is closed, and another may be opened in its place."""
        self.opening = threading.Lock()
        self.codec, self.unpacking = Codec(), threading.Lock()
        self.is_closed = False

    def close(self) -> None:
        with self.opening:
            self.is_closed = True
            for reader in list(self.all):
                reader.close()


class Turn:
    """Who opens a path, while others wait."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


class OpenFiles:
    """The store files that are open in this process to be written, by what they are and not by what they are called."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # what is collected meanwhile may close a store
        self._by_file: WeakValueDictionary[tuple[int, int], OpenFile] = WeakValueDictionary()
        self._turns: WeakValueDictionary[str, Turn] = WeakValueDictionary()

    def open(self, path: str, user: Connection) -> OpenFile:
        """The file of this path, opened if nobody has it open, for a view of it."""
        real = os.path.realpath(path)  # by whatever link: the log lies beside the file
        with self._lock:
            turn = self._turns.get(real) or Turn()
            self._turns[real] = turn
        with turn.lock:
            return self._joined(path, user) or self._opened(path, user)

    def _joined(self, path: str, user: Connection) -> OpenFile | None:
        """What is open already, provided that all its files are still those that were opened."""
        place = file_of(path)
        found = None if place is None else self._by_file.get(place)
        if found is None or not found.files.are_those_of(Files(path)):
            return None
        with self._lock:
            if found.is_closed:
                return None
            found.users.add(user)
        try:
            with found.lock:
                found.reading.wait_for(lambda: check_again(found.db, path))
        except BaseException as error:
            self.leave(found, user)
            if isinstance(error, DATABASE_ERRORS):
                raise translate(error, path) from error
            raise
        return found

    def _opened(self, path: str, user: Connection) -> OpenFile:
        FORGOTTEN.sweep()
        file = OpenFile(path, open_database(path))
        file.users.add(user)
        place = file_of(path)
        if place is not None:
            with self._lock:
                self._by_file[place] = file
        return file

    def leave(self, file: OpenFile, user: Connection) -> None:
        """The last one closes it."""
        with self._lock:
            file.users.discard(user)
            if file.users or file.is_closed:
                return
            file.is_closed = True
            for place, found in list(self._by_file.items()):
                if found is file:
                    del self._by_file[place]
        file.close()


def check_again(db: sqlite3.Connection, path: str) -> None:
    """What holds of a file that is opened holds of one that is open: another program may have been at it."""
    migrate(db, path)  # refuses what a newer version made of it
    (mode,) = db.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        raise StoreUnavailable(f"{path} has no write-ahead log any more (journal_mode is {mode}): end what has it open")


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


SHARED = OpenFiles()
FORGOTTEN = Forgotten()
OPEN: WeakSet[OpenFile] = WeakSet()
INHERITED: list[sqlite3.Connection] = []
"""Of the parent of a forked child, never to be closed there: SQLite would act on locks that the child does not have."""


def is_in_transaction(db: sqlite3.Connection) -> bool:
    try:
        return db.in_transaction
    except sqlite3.ProgrammingError:  # it was closed
        return False


def leave_all_to_the_parent() -> None:
    for file in list(OPEN):
        file.leave_to_the_parent()
    SHARED.__init__()  # type: ignore[misc]  # another thread of the parent may have had its locks


os.register_at_fork(after_in_child=leave_all_to_the_parent)
