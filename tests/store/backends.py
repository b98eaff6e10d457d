"""The engines that one contract holds for, and what somebody with write access could do to each.

A second engine joins by a subclass here and a name in `BACKENDS`.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from reenact.store.base import Store
from reenact.store.compression import Codec
from reenact.store.open import open_store
from reenact.values.clock import Clock

EVIDENCE = ("commits", "erasures", "late_effects", "keys")


class Backend(ABC):
    """One empty store, to be opened."""

    url: str
    is_durable: bool
    """Whether it can be opened again, and by another process."""
    refusal: type[Exception]
    """What its database raises when a guard refuses something."""

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


BACKENDS: dict[str, type[Backend]] = {"sqlite file": SqliteFile, "sqlite in memory": SqliteMemory}
DURABLE = {name: backend for name, backend in BACKENDS.items() if backend.is_durable}
