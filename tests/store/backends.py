"""The engines that one contract holds for, and what somebody with write access could do to each.

A second engine joins by a subclass here and a name in `BACKENDS`.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from reenact.store.base import Store
from reenact.store.compression import Codec
from reenact.store.open import open_store
from reenact.store.postgres.opened.database import Database
from reenact.store.postgres.opened.url import place_of
from reenact.values.clock import Clock, FixedClock
from tests.engines import places
from tests.engines.places import store_at

EVIDENCE = ("commits", "erasures", "late_effects", "keys")


class Backend(ABC):
    """One empty store, to be opened."""

    url: str
    is_durable: bool
    """Whether it can be opened again, and by another process."""
    refusal: type[Exception]
    """What its database raises when a guard refuses something."""

    expected: frozenset[str] = frozenset()
    """Subjects of which a doctor finds what tests want: the server of theirs is quick, and not durable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, clock: Clock | None = None) -> Store:
        return open_store(self.url, clock=clock)

    # -- with the guards on: what an honest program might do by mistake

    @abstractmethod
    def update(self, store: Store, table: str) -> None:
        """Change the last column of every row."""

    @abstractmethod
    def delete(self, store: Store, table: str) -> None:
        """Delete every row."""

    @abstractmethod
    def put_erasure(self, store: Store, run_id: str, record: bytes) -> None:
        """A row that only erasing writes."""

    # -- with the guards off: damage

    @abstractmethod
    def change_commit(self, store: Store, run_id: str, n: int, change: Callable[[bytes], bytes]) -> None:
        """Another body, packed as the store packs it; the digest beside it stays."""

    @abstractmethod
    def remove_commit(self, store: Store, run_id: str, n: int) -> None: ...

    @abstractmethod
    def change_payload(self, store: Store, commitment: str, envelope: bytes) -> None: ...

    @abstractmethod
    def remove_payload(self, store: Store, commitment: str) -> None: ...

    @abstractmethod
    def remove_erasure(self, store: Store, number: int) -> None: ...

    @abstractmethod
    def change_status(self, store: Store, run_id: str, status: str) -> None: ...

    @abstractmethod
    def rename_run(self, store: Store, run_id: str, name: str) -> None: ...

    @abstractmethod
    def take_off_a_guard(self, store: Store) -> str:
        """Its name."""


class SqliteFile(Backend):
    is_durable = True
    refusal = sqlite3.IntegrityError

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = f"sqlite:///{folder / 'store.db'}"

    @contextmanager
    def database(self, _store: Store) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.folder / "store.db", isolation_level=None)) as db:
            yield db

    def update(self, store: Store, table: str) -> None:
        with self.database(store) as db:
            column = [row[1] for row in db.execute(f"PRAGMA table_info({table})")][-1]
            db.execute(f"UPDATE {table} SET {column} = x'01'")

    def delete(self, store: Store, table: str) -> None:
        with self.database(store) as db:
            db.execute(f"DELETE FROM {table}")

    def put_erasure(self, store: Store, run_id: str, record: bytes) -> None:
        with self.database(store) as db:
            db.execute("INSERT INTO erasures SELECT 1, run_no, ? FROM runs WHERE run_id = ?", (record, run_id))

    def tamper(self, store: Store, sql: str, *parameters: object) -> None:
        with self.database(store) as db:
            guards = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in guards:
                db.execute(f"DROP TRIGGER {name}")
            assert db.execute(sql, parameters).rowcount > 0, "there was nothing to damage"
            for _, guard in guards:
                db.execute(guard)

    def commit_id(self, store: Store, run_id: str, n: int) -> int:
        with self.database(store) as db:
            (run_no,) = db.execute("SELECT run_no FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        return int(run_no) << 24 | n

    def change_commit(self, store: Store, run_id: str, n: int, change: Callable[[bytes], bytes]) -> None:
        body = store.body(run_id, n)
        assert body is not None
        assert change(body) != body
        packed = Codec().pack_body(change(body))
        self.tamper(store, "UPDATE commits SET body = ? WHERE id = ?", packed, self.commit_id(store, run_id, n))

    def remove_commit(self, store: Store, run_id: str, n: int) -> None:
        self.tamper(store, "DELETE FROM commits WHERE id = ?", self.commit_id(store, run_id, n))

    def change_payload(self, store: Store, commitment: str, envelope: bytes) -> None:
        packed = Codec().pack_envelope(envelope)
        self.tamper(store, "UPDATE payloads SET body = ? WHERE commitment = ?", packed, bytes.fromhex(commitment))

    def remove_payload(self, store: Store, commitment: str) -> None:
        self.tamper(store, "DELETE FROM payloads WHERE commitment = ?", bytes.fromhex(commitment))

    def remove_erasure(self, store: Store, number: int) -> None:
        self.tamper(store, "DELETE FROM erasures WHERE id = ?", number)

    def change_status(self, store: Store, run_id: str, status: str) -> None:
        self.tamper(store, "UPDATE runs SET status = ? WHERE run_id = ?", status, run_id)

    def rename_run(self, store: Store, run_id: str, name: str) -> None:
        self.tamper(store, "UPDATE runs SET run_id = ? WHERE run_id = ?", name, run_id)

    def take_off_a_guard(self, store: Store) -> str:
        with self.database(store) as db:
            db.execute("DROP TRIGGER commits_are_not_deleted")
        return "commits_are_not_deleted"


class SqliteMemory(SqliteFile):
    """The same tables in memory, where nobody but this process can reach them."""

    is_durable = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = ":memory:"

    @contextmanager
    def database(self, store: Store) -> Iterator[sqlite3.Connection]:
        yield store._writer.db  # type: ignore[attr-defined]


class PostgresSchema(Backend):
    """A schema of its own in a real server. Its clock is the one that the store was opened with."""

    is_durable = True
    refusal = psycopg.DatabaseError
    expected = frozenset({"durability"})

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url
        self.database = Database(place_of(url))

    def open(self, clock: Clock | None = None) -> Store:
        store = super().open(clock)
        if isinstance(clock, FixedClock):
            follow(clock, self.tell)
        return store

    def tell(self, clock: FixedClock) -> None:
        now = f"SELECT {clock.now_ms()}::bigint"
        self.execute(f"CREATE OR REPLACE FUNCTION :schema.now_ms() RETURNS bigint LANGUAGE sql AS '{now}'")

    def execute(self, sql: str, *values: object) -> int:
        """As somebody who knows nothing of stores; how many rows it was about."""
        place = self.database.place
        with psycopg.connect(place.conninfo, autocommit=True) as db:
            return db.execute(sql.replace(":schema", place.schema), values or None).rowcount

    def update(self, _store: Store, table: str) -> None:
        columns = "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
        *_, last = self.database.ask(f"{columns} ORDER BY ordinal_position", (self.database.place.schema, table))
        self.execute(f"UPDATE :schema.{table} SET {last[0]} = {last[0]}")

    def delete(self, _store: Store, table: str) -> None:
        self.execute(f"DELETE FROM :schema.{table}")

    def put_erasure(self, _store: Store, run_id: str, record: bytes) -> None:
        sql = "INSERT INTO :schema.erasures SELECT 1, run_no, %s FROM :schema.runs WHERE run_id = %s"
        self.execute(sql, record, run_id)

    def tamper(self, sql: str, *values: object) -> None:
        tables = ("commits", "payloads", "erasures", "runs")
        for table in tables:
            self.execute(f"ALTER TABLE :schema.{table} DISABLE TRIGGER USER")
        assert self.execute(sql, *values) > 0, "there was nothing to damage"
        for table in tables:
            self.execute(f"ALTER TABLE :schema.{table} ENABLE TRIGGER USER")

    def change_commit(self, store: Store, run_id: str, n: int, change: Callable[[bytes], bytes]) -> None:
        body = store.body(run_id, n)
        assert body is not None
        assert change(body) != body
        packed = Codec().pack_body(change(body))
        self.tamper(f"UPDATE :schema.commits SET body = %s WHERE {THE_COMMIT}", packed, run_id, n)

    def remove_commit(self, _store: Store, run_id: str, n: int) -> None:
        self.tamper(f"DELETE FROM :schema.commits WHERE {THE_COMMIT}", run_id, n)

    def change_payload(self, _store: Store, commitment: str, envelope: bytes) -> None:
        packed = Codec().pack_envelope(envelope)
        self.tamper("UPDATE :schema.payloads SET body = %s WHERE commitment = %s", packed, bytes.fromhex(commitment))

    def remove_payload(self, _store: Store, commitment: str) -> None:
        self.tamper("DELETE FROM :schema.payloads WHERE commitment = %s", bytes.fromhex(commitment))

    def remove_erasure(self, _store: Store, number: int) -> None:
        self.tamper("DELETE FROM :schema.erasures WHERE id = %s", number)

    def change_status(self, _store: Store, run_id: str, status: str) -> None:
        self.tamper("UPDATE :schema.runs SET status = %s WHERE run_id = %s", status, run_id)

    def rename_run(self, _store: Store, run_id: str, name: str) -> None:
        self.tamper("UPDATE :schema.runs SET run_id = %s WHERE run_id = %s", name, run_id)

    def take_off_a_guard(self, _store: Store) -> str:
        self.execute("DROP TRIGGER commits_are_not_changed ON :schema.commits")
        return "commits_are_not_changed"


THE_COMMIT = "run_no = (SELECT run_no FROM :schema.runs WHERE run_id = %s) AND n = %s"


def follow(clock: FixedClock, tell: Callable[[FixedClock], None]) -> None:
    """Whenever the clock is moved on, somebody hears of it."""
    advance = clock.advance

    def heard(seconds: float) -> None:
        advance(seconds)
        tell(clock)

    clock.advance = heard  # type: ignore[method-assign]
    tell(clock)


BACKENDS: dict[str, type[Backend]] = {
    "sqlite file": SqliteFile,
    "sqlite in memory": SqliteMemory,
    "postgres": PostgresSchema,
}


def made(request: pytest.FixtureRequest, folder: Path) -> Iterator[Backend]:
    """The engine that a fixture's parameter names."""
    if request.param != "postgres":
        yield BACKENDS[request.param](folder)
        return
    with request.getfixturevalue("new_schema")() as url:
        yield PostgresSchema(folder, url)


def backend_at(folder: Path) -> Backend:
    """Of the store that a test of any engine has in this folder."""
    url = store_at(folder / "store.db")
    return SqliteFile(folder) if places.database is None else PostgresSchema(folder, url)


def backend_of(store: Store, folder: Path) -> Backend:
    """The same of one that is open, and is in memory where it is not in a database."""
    return SqliteMemory(folder) if store.in_memory else PostgresSchema(folder, store.url)


DURABLE = {name: backend for name, backend in BACKENDS.items() if backend.is_durable}
