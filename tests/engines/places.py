"""Where a test's store lies: a file, or a schema of a database that is named after the file that it would have been.

Whatever opens a store in a suite that runs on both engines takes its place from `store_at`: the same name leads to the
same store, in this process and in its forked children.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from reenact.store.open import open_store
from reenact.values.clock import Clock, FixedClock

if TYPE_CHECKING:
    import psycopg

    from reenact.store.base import Store
    from reenact.store.postgres.opened.database import Database as Connections
    from tests.postgres.server import Server

MANY: Final = 8
MEMORY: Final = (":memory:", "sqlite:///:memory:", "sqlite://:memory:")


class Database:
    """Where schemas are made for tests, by whatever way leads there.

    Those of a module go together with its database, which is made anew where the `server` is the tests' own.
    """

    def __init__(self, url: str, server: Server | None = None) -> None:
        self._given, self._server = url, server
        self.url = url
        self._begin()

    def _begin(self) -> None:
        token = uuid4().hex[:8]
        self._token = f"test_{token}_"
        self._known: set[str] = set()
        self._by_the_module: list[str] = []
        self._asked = self._by_the_module
        if self._server is not None:
            self._server.add_database(token)
            self.url = urlunsplit(urlsplit(self._given)._replace(path=f"/{token}"))

    @contextmanager
    def heeded(self) -> Iterator[list[str]]:
        """What a test asks for until it is over, with what its module asked for."""
        self._asked = [*self._by_the_module]
        try:
            yield self._asked
        finally:
            self._asked = self._by_the_module

    def schema(self, name: str) -> str:
        """The URL of a schema of this name alone."""
        if len(opened_here()) > MANY:  # a test that opens one after the other
            self.hang_up()
        schema = self._token + sha256(name.encode()).hexdigest()[:12]
        self._asked.append(schema)
        self._known.add(schema)
        return f"{self.url}{'&' if '?' in self.url else '?'}schema={schema}"

    def hang_up(self) -> None:
        """Let go the connections of whatever a test left open; what goes on makes new ones."""
        for found in opened_here():
            for link in (found._writer, found._beat, *found._readers):
                with link.lock:
                    link.drop()

    def made_by_children(self) -> set[str]:
        """Schemas that nobody asked for here, since it was last asked."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True, prepare_threshold=None) as db:
            found = self._made(db) - self._known
        self._known |= found
        return found

    def _made(self, db: psycopg.Connection[Any]) -> set[str]:
        named = "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)"
        return {schema for (schema,) in db.execute(named, (self._token,)).fetchall()}

    def clear(self) -> None:
        """Take away what was made since, also by children; what comes next lies elsewhere."""
        import psycopg
        from psycopg import sql

        self.hang_up()
        if self._server is not None:  # much quicker than schema by schema, whoever still holds one
            name = urlsplit(self.url).path[1:]
            self._server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        else:
            with psycopg.connect(self.url, autocommit=True, prepare_threshold=None) as db:
                for schema in self._made(db):
                    db.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
        self._begin()


def opened_here() -> list[Connections]:
    """What this process has open of stores in databases."""
    from reenact.store.postgres.opened.shared import _open

    return [found for found, _ in _open.values()]


database: Database | None = None
"""The one that the tests of now have their stores in; None where these are files."""


def store_at(place: Path | str) -> str:
    """What names the store of a test: the place itself, or the URL of a schema instead of that file.

    In memory there is a new one each time.
    """
    named = str(place)
    if database is None or named.startswith(("postgresql://", "postgres://")):
        return named
    if named in MEMORY:
        return database.schema(uuid4().hex)
    return database.schema(os.path.realpath(named.removeprefix("sqlite:///")))


def opened(place: Path | str, *, clock: Clock | None = None, to_read: bool = False) -> Store:
    return open_store(store_at(place), clock=clock, to_read=to_read)


def ask(place: Path | str, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """What lies in the tables of a store, or what it answers to whoever changes them: the same SQL for both engines."""
    url = store_at(place)
    if database is None:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)) as db:
            return db.execute(sql, values).fetchall()
    import psycopg

    from reenact.store.postgres.opened.url import place_of

    found = place_of(url)
    with psycopg.connect(found.conninfo, prepare_threshold=None) as db:
        db.execute(f"SET LOCAL search_path TO {found.schema}")
        cursor = db.execute(sql.replace("?", "%s"), values or None)
        return cursor.fetchall() if cursor.description else []


def all_of(place: Path) -> object:
    """All that lies in a store, to see whether anything was written, but its log, which follows on its own."""
    if database is None:
        files = [file for file in place.parent.glob(f"{place.name}*") if not file.name.endswith("-shm")]
        return {file.name: file.read_bytes() for file in files}
    tables = ask(place, "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
    return {
        table: ask(place, f'SELECT t::text FROM "{table}" t ORDER BY 1')
        for (table,) in tables
        if not table.startswith("log_")
    }


def raw_of(place: Path) -> bytes:
    """Every byte and text that a store in a database holds, packed as it lies there; none of one in a file."""
    if database is None:
        return b""
    tables = ask(place, "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
    cells = (cell for (table,) in tables for row in ask(place, f'SELECT * FROM "{table}"') for cell in row)
    return b"".join(cell if isinstance(cell, bytes) else str(cell).encode() for cell in cells)


def key_at(place: Path | str) -> Path:
    """The file with the key of a store that is there."""
    if database is None:
        return Path(f"{place}.key")
    from reenact.store.postgres.opened.keys import keys_beside

    ((store_id,),) = ask(place, "SELECT value FROM store WHERE key = 'store_id'")
    return Path(f"{keys_beside(store_id)}.key")


Tell = Callable[[FixedClock], None]


def follow(clock: FixedClock, name: str, tell: Tell) -> None:
    """Whenever the clock is moved on, whoever has this name hears of it."""
    hearers: dict[str, Tell] = clock.__dict__.setdefault("hearers", {})
    if not hearers:
        advance = clock.advance

        def heard(seconds: float) -> None:
            advance(seconds)
            for each in tuple(hearers.values()):
                each(clock)

        clock.advance = heard  # type: ignore[method-assign]
    hearers[name] = tell
    tell(clock)


def password_of(url: str) -> str | None:
    return urlsplit(url).password
