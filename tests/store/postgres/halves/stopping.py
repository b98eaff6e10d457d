"""Where one process of several stops: at one of its requests, or in the database before it writes to a table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

import psycopg

from reenact.store.postgres.store import PostgresStore
from tests.postgres.proxy import Proxy
from tests.store.postgres.halves.crew import Crew
from tests.store.postgres.halves.pairs import Pair

NAME = "held"
"""Of the application that stops, as the server knows it."""
PATIENCE_S = 30.0
HALT = (
    "CREATE FUNCTION :schema.halt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    f"IF current_setting('application_name') = '{NAME}' THEN PERFORM pg_advisory_xact_lock(hashtext(TG_TABLE_NAME)); "
    "END IF; RETURN NULL; END $$"
)
TRIGGER = (
    "CREATE TRIGGER halts BEFORE INSERT OR UPDATE OR DELETE ON :schema.{} FOR EACH STATEMENT "
    "EXECUTE FUNCTION :schema.halt()"
)
BLOCKED = (
    "SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND wait_event_type = 'Lock' "
    f"AND application_name <> '{NAME}'"
)
HALTED = f"SELECT pid FROM pg_stat_activity WHERE application_name = '{NAME}' AND wait_event = 'advisory'"


class Stop(Protocol):
    def set_up(self) -> None: ...
    def is_reached(self) -> bool: ...
    def go_on(self, *, cut: bool) -> None:
        """With `cut` its connection ends, and what it did is rolled back."""


class AtRequest:
    """Between client and server: before the request after `ahead` more comes there."""

    def __init__(self, proxy: Proxy, ahead: int) -> None:
        self._proxy = proxy
        self._ahead = ahead

    def set_up(self) -> None:
        self._proxy.hold(self._ahead)

    def is_reached(self) -> bool:
        return self._proxy.held.is_set()

    def go_on(self, *, cut: bool) -> None:
        self._proxy.let_go(cut=cut)


class AtTable:
    """In the server: before the first statement that writes to `table`, within whatever function."""

    def __init__(self, control: psycopg.Connection[tuple[object, ...]], table: str) -> None:
        self._control = control
        self._table = table

    def set_up(self) -> None:
        self._control.execute("SELECT pg_advisory_lock(hashtext(%s))", (self._table,))

    def is_reached(self) -> bool:
        return bool(self._control.execute(HALTED).fetchall())

    def go_on(self, *, cut: bool) -> None:
        if cut:
            self._control.execute(f"SELECT pg_terminate_backend(pid) FROM ({HALTED}) h")
        self._control.execute("SELECT pg_advisory_unlock(hashtext(%s))", (self._table,))


class Stage:
    """A store and whoever works on it. Through a pooler, which does not tell who is who, nobody stops in the server,
    and only two others are there at once."""

    def __init__(
        self, store: PostgresStore, crew: Crew, proxy: Proxy, control: psycopg.Connection[tuple[object, ...]],
        *, is_pooled: bool,
    ) -> None:  # fmt: skip
        self.store = store
        self.crew = crew
        self.proxy = proxy
        self._control = control
        self._is_pooled = is_pooled
        self._at_once = 2 if is_pooled else len(crew.members)
        self._count = 0

    def stops(self, pair: Pair, first: int, every: int) -> Iterator[Stop]:
        """At requests until there are no more, then in the server before it writes to each table."""
        ahead = first
        while True:
            yield (stop := AtRequest(self.proxy, ahead))
            if not stop.is_reached():
                break
            ahead += every
        for table in () if self._is_pooled else pair.tables:
            yield AtTable(self._control, table)

    def play(self, pair: Pair, stop: Stop, *, cut: bool) -> bool:
        """All do it; the first is stopped until the others have done it or wait for it. Whether it was stopped."""
        self._count += 1
        about, (first, *others) = f"about {self._count}", self.crew.members
        pair.before(self.store, about)
        stop.set_up()
        first.start(pair.act, about)
        wait_until(lambda: stop.is_reached() or first.is_done())
        was_stopped = stop.is_reached()
        for member in others:
            member.start(pair.act, about)
        wait_until(lambda: self._waits() >= min(sum(not member.is_done() for member in others), self._at_once))
        stop.go_on(cut=cut and was_stopped)
        came = Counter(member.result() for member in self.crew.members)
        pair.after(self.store, about, came)
        return was_stopped

    def _waits(self) -> int:
        """How many wait for a lock."""
        ((count,),) = self._control.execute(BLOCKED).fetchall()
        return int(str(count))


def wait_until(seen: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < until
        time.sleep(0.002)
