"""Rows in which the keys of a store file begin, are rotated and replaced; `reenact.store.keys.keeper` reads them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from reenact.contracts.records import ENDED, Seal
from reenact.store.beside.idempotency import IdempotencyRows
from reenact.store.copying.origins import COPIED, Origins, read_origins
from reenact.store.keys.here import KeysHere
from reenact.store.keys.history import SEALED_ERASURES
from reenact.store.keys.keeper import KeyTable, KeyWriting, sealed_erasures
from reenact.store.keys.notes import Note, sign_at_once
from reenact.store.signing import SigningKey
from reenact.store.sqlite.connection import Connection
from reenact.store.sqlite.keys import KeyRows
from reenact.store.sqlite.signed import notes
from reenact.values.clock import Clock

T = TypeVar("T")
IDENTITY = (
    "SELECT (SELECT value FROM store WHERE key = 'store_id') AS store_id, (SELECT secret FROM key_secret) AS secret, "
    f"(SELECT value FROM store WHERE key = '{COPIED}') AS copied"
)
LAST_SEALED = "SELECT record FROM notes WHERE schema = ? AND record IS NOT NULL ORDER BY id DESC LIMIT 1"
LAST_ERASURE = "SELECT id, body FROM erasures ORDER BY id DESC LIMIT 1"
ON_RECORD = "SELECT kid, public_key FROM keys ORDER BY kid"


def origins_in(said: object) -> Origins:
    """The stores that this one was copied from, as its row says."""
    return read_origins(said)


def key_table(writer: Connection, store_id: str, here: KeysHere, clock: Clock, origins: Origins) -> KeyTable:
    """The keys of a store file."""
    return KeyTable(SqliteKeyRecords(writer, clock, store_id, origins), store_id, here, clock)


class SqliteKeyRecords:
    """`reenact.store.keys.keeper.KeyRecords` of one file."""

    def __init__(self, writer: Connection, clock: Clock, store_id: str, origins: Origins) -> None:
        self._writer = writer
        self._clock = clock
        self._store_id = store_id
        self._origins = origins
        self.url = f"sqlite:///{writer.path}"
        self.name = writer.path
        self.in_memory = writer.path == ":memory:"

    def on_record(self) -> dict[str, str]:
        return dict(self._writer.query(ON_RECORD))

    def notes(self, schemas: tuple[str, ...]) -> list[Note]:
        return [note for note in notes.of_kinds(self._writer, schemas) if note.store_id not in self._origins.ids]

    def open_runs(self) -> list[tuple[int, str]]:
        sql = f"SELECT run_no, run_id FROM runs WHERE status NOT IN {ENDED} AND run_no > ? ORDER BY run_no"
        return self._writer.query(sql, (self._origins.last_run,))

    def commits(self, run_no: int) -> int | None:
        bounds = (run_no << 24, (run_no + 1) << 24)
        ((last,),) = self._writer.query("SELECT max(id) FROM commits WHERE id > ? AND id < ?", bounds)
        return None if last is None else last & 0xFFFFFF

    def body(self, run_no: int, n: int) -> bytes | None:
        rows = self._writer.query("SELECT id, body FROM commits WHERE id = ?", (run_no << 24 | n,))
        return self._writer.codec.unpack(rows[0][1]) if rows else None

    def transact(self, act: Callable[[KeyWriting], T]) -> T:
        with self._writer.transaction() as db:
            return act(SqliteKeyWriting(db, self._clock.now_ms(), self._store_id))


class SqliteKeyWriting:
    """`reenact.store.keys.keeper.KeyWriting` in the transaction that was begun."""

    def __init__(self, db: sqlite3.Connection, now_ms: int, store_id: str) -> None:
        self._db = db
        self._store_id = store_id
        self._now_ms = now_ms
        self.idempotency: IdempotencyRows = KeyRows(db.execute)

    def has_begun(self) -> bool:
        sql = "SELECT 1 FROM notes WHERE schema = 'reenact.signing.v1' AND store_id = ?"
        return self._db.execute(sql, (self._store_id,)).fetchone() is not None

    def on_record(self) -> dict[str, str]:
        return dict(self._db.execute(ON_RECORD).fetchall())

    def put_on_record(self, key: SigningKey) -> None:
        self._db.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (key.kid, key.public_key))

    def write(self, note: Note) -> None:
        notes.write(self._db, note)

    def last_erasure(self) -> tuple[int, bytes] | None:
        return self._db.execute(LAST_ERASURE).fetchone()  # type: ignore[no-any-return]

    def last_seal(self) -> tuple[int, str] | None:
        return self._db.execute("SELECT id, seal_digest FROM seals ORDER BY id DESC LIMIT 1").fetchone()  # type: ignore[no-any-return]

    def leases(self) -> list[tuple[str, str | None, bool]]:
        rows = self._db.execute(f"SELECT run_id, owner, expires_ms FROM runs WHERE status NOT IN {ENDED}")
        return [(run_id, owner, self._now_ms < expires) for run_id, owner, expires in rows.fetchall()]


def sign_erasures(db: sqlite3.Cursor, key: SigningKey, store_id: str, seal: Seal) -> None:
    """With the first seal after an erasure: how many there are and the head of their chain, signed."""
    last = db.execute(LAST_ERASURE).fetchone()
    if last is None:
        return
    signed = db.execute(LAST_SEALED, (SEALED_ERASURES,)).fetchone()
    raw = sealed_erasures(last, None if signed is None else signed[0], seal)
    if raw is not None:
        notes.write(db, sign_at_once(key, SEALED_ERASURES, store_id, sha256(raw).hexdigest(), raw))
