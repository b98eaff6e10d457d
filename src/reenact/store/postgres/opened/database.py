"""The connections of one process to one store, and what is asked through them.

At most four, whatever the number of runtimes, threads and runs: one that writes, one for heartbeats, two that read.
Every round trip has a deadline by this process's own clock: a peer that is stopped goes on to acknowledge what it is
sent. Nothing depends on a session: no prepared statements, no settings, no locks, so any pooler will do.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg.abc import PQGen

from reenact.errors import StoreBusy, StoreUnavailable
from reenact.store.postgres.opened.errors import Again, Lost, cannot_connect, translate
from reenact.store.postgres.opened.url import Place

T = TypeVar("T")
Rows = list[Any]
Parameters = Sequence[object]

TRIP_S = 4.0
"""So long one round trip may take, and so long a connection may take to be made."""
TRYING_S = 7.0
"""So long something is tried, with all its statements and tries: less than a lease lasts, also with a connection that
takes two seconds more to be given up."""
BYTES_A_SECOND = 2_000_000
"""Whoever sends much is given the time that it takes on a slow line."""
PAUSE_S = 0.05
READERS = 2
BEGIN = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_catalog.set_config('synchronous_commit', "
    "CASE pg_catalog.current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, "
    "true), pg_catalog.set_config('lock_timeout', '3s', true), "
    "pg_catalog.set_config('idle_in_transaction_session_timeout', '{}s', true)"
)
"""Durable whatever the server's defaults are, and waiting for no lock for longer than an answer is waited for. Whoever
falls silent within it is let go by the server, with all that he has locked."""
SILENT_S = 4
"""Others try for longer than that."""


class Asks(Protocol):
    """Whatever a statement is sent through: a database, a connection, a transaction."""

    def ask(self, sql: str, parameters: Parameters = (), *, size: int = 0) -> Rows:
        """The rows that it gives, if any. `size` is how many bytes go there, where they are many."""


class Wire(psycopg.Connection[Any]):
    """A connection whose every wait ends at `until`."""

    until = 0.0

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        left = max(self.until - time.monotonic(), 0.001) if self.until else timeout
        return super().wait(gen, interval, left)


class Link:
    """One connection, made when it is needed and made anew when it broke. Used by one thread at a time."""

    def __init__(self, place: Place, statements: dict[str, str]) -> None:
        self.lock = threading.RLock()
        self._place = place
        self._statements = statements
        self._wire: Wire | None = None
        self._is_closed = False
        self.trip_s: float | None = None
        """So long a round trip may take, where no lease hangs on it."""

    def _connected(self) -> Wire:
        wire = self._wire
        if self._is_closed:
            raise StoreUnavailable(f"{self._place.shown} was closed here; open it again")
        if wire is None or wire.closed:
            try:
                seconds = math.ceil(DEADLINE.left(TRIP_S))
                wire = self._wire = Wire.connect(
                    self._place.conninfo, autocommit=True, prepare_threshold=None, connect_timeout=seconds
                )
            except psycopg.Error as error:
                raise cannot_connect(error, self._place.shown) from None
        return wire

    def ask(self, sql: str, parameters: Parameters = (), *, size: int = 0) -> Rows:
        """One round trip; the rows of what it gives, if anything. `Lost` where nobody knows whether it was done."""
        wire = self._connected()
        text = self._statements.get(sql) or self.named(sql)
        wire.until = time.monotonic() + DEADLINE.left((self.trip_s or TRIP_S) + size / BYTES_A_SECOND)
        try:
            cursor = wire.execute(text, parameters or None, prepare=False, binary=bool(parameters))
            return cursor.fetchall() if cursor.description is not None else []
        except psycopg.Error as error:
            translated = translate(error, self._place.shown)
            if isinstance(translated, Lost) or wire.closed or isinstance(error, psycopg.errors._WaitTimeout):  # noqa: SLF001
                self.drop()
                raise Lost(str(translated)) from None
            raise translated from error
        except BaseException:  # an interrupt: nobody knows where it stands
            self.drop()
            raise

    def named(self, sql: str) -> str:
        """The statement with the name of the schema in it."""
        text = self._statements[sql] = sql.replace(":schema", f'"{self._place.schema}"')
        return text

    @property
    def is_in_transaction(self) -> bool:
        return self._wire is not None and self._wire.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def drop_transaction(self) -> None:
        """End what only read, so that the connection can be used for something else."""
        if self.is_in_transaction:
            with suppress(StoreBusy, StoreUnavailable):
                self.ask("ROLLBACK")
            if self.is_in_transaction:
                self.drop()

    def drop(self) -> None:
        """Let the connection go, without a word to whoever may not listen."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.pgconn.finish()

    def close(self) -> None:
        self._is_closed = True
        self.drop()


class Transaction:
    """A transaction that was begun; whoever begun it ends it."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def ask(self, sql: str, parameters: Parameters = (), *, size: int = 0) -> Rows:
        return self._link.ask(sql, parameters, size=size)


class Database:
    """What one process has open of one store."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._process = os.getpid()
        self._statements: dict[str, str] = {}
        self._writer, self._beat = self._link(), self._link()
        self._readers = [self._link() for _ in range(READERS)]
        self._free = threading.Condition()
        self._lent: set[int] = set()

    def _link(self) -> Link:
        return Link(self.place, self._statements)

    def check_process(self) -> None:
        if self._process != os.getpid():
            raise StoreUnavailable(f"{self.place.shown} was opened before this process was forked; open it again here")

    # -- reading -------------------------------------------------------------------------------------------------------

    def ask(self, sql: str, parameters: Parameters = (), *, size: int = 0) -> Rows:
        """Read; tried again where the connection broke."""
        with self.reader() as link:
            return repeated(lambda: link.ask(sql, parameters, size=size), size=size)

    @contextmanager
    def reader(self, *, wait_s: float = 0.0, trip_s: float | None = None) -> Iterator[Link]:
        """A connection to read through. The one that writes, where those that read are all lent for long, and whoever
        asks does not wait for one; `trip_s` is how long a round trip may then take."""
        self.check_process()
        number = self._borrow(wait_s)
        if number is None:
            with self._writer.lock:
                yield self._writer
            return
        link = self._readers[number]
        link.trip_s = trip_s
        try:
            yield link
        finally:
            link.trip_s = None
            with self._free:
                self._lent.discard(number)
                self._free.notify()

    def _borrow(self, wait_s: float) -> int | None:
        until = time.monotonic() + (wait_s or PAUSE_S)
        with self._free:
            while True:
                for number in range(READERS):
                    if number not in self._lent:
                        self._lent.add(number)
                        return number
                left = until - time.monotonic()
                if left <= 0:
                    if wait_s:
                        raise StoreBusy(f"{self.place.shown}: all that this process may read through is in use")
                    return None
                self._free.wait(left)

    # -- writing -------------------------------------------------------------------------------------------------------

    def call(self, sql: str, parameters: Parameters = (), *, again: Parameters | None = None, size: int = 0) -> Rows:
        """One statement that is a transaction of its own: one round trip. It may be done twice, the second time with
        what stands in `again`."""
        tries = iter((parameters,))
        self.check_process()
        with self._writer.lock:
            return repeated(lambda: self._writer.ask(sql, next(tries, again or parameters), size=size), size=size)

    def beat(self, sql: str, parameters: Parameters = ()) -> Rows:
        """The same beside whatever is being written."""
        self.check_process()
        with self._beat.lock:
            return repeated(lambda: self._beat.ask(sql, parameters))

    @property
    def is_in_transaction(self) -> bool:
        """Of the thread that asks."""
        return self._writer.is_in_transaction

    def transact(self, act: Callable[[Transaction], T], *, size: int = 0) -> T:
        """What `act` does, in one transaction. It may be called again, when nothing was done, and when nobody knows
        whether the last one was committed: so it has to see what it did. Whatever it raises rolls back."""
        self.check_process()
        with self._writer.lock:
            return repeated(lambda: self._transacted(act, size), size=size)

    def _transacted(self, act: Callable[[Transaction], T], size: int) -> T:
        link = self._writer
        if link.is_in_transaction:  # within another one, whose part it is
            return act(Transaction(link))
        try:
            link.ask(BEGIN.format(SILENT_S + size // BYTES_A_SECOND))
            result = act(Transaction(link))
            link.ask("COMMIT")
        except BaseException:
            link.drop_transaction()
            raise
        return result

    def close(self) -> None:
        """Of a forked child nothing is closed: what it has is its parent's."""
        if self._process == os.getpid():
            for link in (self._writer, self._beat, *self._readers):
                with link.lock:
                    link.close()


class Deadline(threading.local):
    """By when what this thread does at the server has to end, whatever it takes."""

    until: float | None = None

    def left(self, most: float) -> float:
        """Seconds."""
        return most if self.until is None else max(min(most, self.until - time.monotonic()), 0.05)


DEADLINE = Deadline()


def repeated(act: Callable[[], T], *, size: int = 0) -> T:
    """What `act` gives, tried again for as long as a lease leaves time. `size` is how many bytes go there."""
    if DEADLINE.until is not None:  # a part of something that is tried again as a whole
        return act()
    pause = PAUSE_S
    DEADLINE.until = time.monotonic() + TRYING_S + size / BYTES_A_SECOND
    try:
        while True:
            try:
                return act()
            except (Lost, Again) as error:
                takes_s = error.takes_s if isinstance(error, Again) else 0.0
                if DEADLINE.until - time.monotonic() < pause + PAUSE_S + takes_s:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 1.0)
    finally:
        DEADLINE.until = None
