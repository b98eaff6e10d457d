"""What is another in the process of a test that runs on PostgreSQL.

A store in a file is refused there. Leases in a database go by the server's clock: a test that has a clock of its own
has the server go by that one.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from reenact.store.postgres import engine
from reenact.store.postgres.opened.url import place_of
from reenact.store.postgres.store import PostgresStore
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import Clock, FixedClock
from tests.engines.places import follow


def begin(patch: pytest.MonkeyPatch) -> None:
    real = engine.store

    def store(url: str, clock: Clock | None, *, to_read: bool) -> PostgresStore:
        made = real(url, clock, to_read=to_read)
        if isinstance(clock, FixedClock) and not to_read:
            follow(clock, url, lambda clock: tell(url, clock))
        return made

    patch.setattr(engine, "store", store)
    opens = SqliteStore.__init__

    def open_file(self: SqliteStore, url: str | None = None, **options: Any) -> None:
        opens(self, url, **options)
        assert self.in_memory, f"{self.url} is a store in a file, and this test runs on PostgreSQL: see `store_at`"

    patch.setattr(SqliteStore, "__init__", open_file)


def tell(url: str, clock: FixedClock) -> None:
    """What the server's clock says from now on, to whoever asks for it in a store."""
    set_clock(url, f"{clock.now_ms()}::bigint")


def run_ahead(url: str, ms: int) -> None:
    """The server's clock goes as before, and so much further on."""
    set_clock(url, f"(extract(epoch FROM clock_timestamp()) * 1000)::bigint + {ms}")


def set_clock(url: str, now: str) -> None:
    place = place_of(url)
    words = f"CREATE OR REPLACE FUNCTION {place.schema}.now_ms() RETURNS bigint LANGUAGE sql AS 'SELECT {now}'"
    with psycopg.connect(place.conninfo, autocommit=True, prepare_threshold=None) as db:
        db.execute(words.encode())
