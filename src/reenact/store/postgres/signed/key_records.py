"""The rows in which the keys of a store begin, are rotated and replaced; `reenact.store.keys.keeper` reads them."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from reenact.contracts.records import ENDED, Seal
from reenact.store.beside.idempotency import IdempotencyRows
from reenact.store.compression import Codec
from reenact.store.copying.origins import COPIED, Origins, read_origins
from reenact.store.keys.here import KeysHere
from reenact.store.keys.history import SEALED_ERASURES
from reenact.store.keys.keeper import KeyTable, KeyWriting, sealed_erasures
from reenact.store.keys.notes import Note, sign_at_once
from reenact.store.postgres.opened.database import Asks, Database
from reenact.store.postgres.signed import key_rows, notes
from reenact.store.signing import SigningKey
from reenact.values.clock import Clock

T = TypeVar("T")
ON_RECORD = "SELECT kid, public_key FROM :schema.keys ORDER BY kid"
LAST_ERASURE = "SELECT id, body FROM :schema.erasures ORDER BY id DESC LIMIT 1"
LAST_SEALED = "SELECT record FROM :schema.notes WHERE schema = %s AND record IS NOT NULL ORDER BY id DESC LIMIT 1"
OPEN = f"status NOT IN {ENDED}"


def origins_in(said: dict[str, str]) -> Origins:
    """The stores that this one was copied from, as the rows of `store` say."""
    return read_origins(said.get(COPIED))


def key_table(database: Database, store_id: str, here: KeysHere, clock: Clock, origins: Origins) -> KeyTable:
    """The keys of a store."""
    return KeyTable(KeyRecords(database, store_id, origins), store_id, here, clock)


class KeyRecords:
    """`reenact.store.keys.keeper.KeyRecords` of one database."""

    in_memory = False

    def __init__(self, database: Database, store_id: str, origins: Origins) -> None:
        self._database = database
        self._store_id = store_id
        self._origins = origins
        self.url = self.name = database.place.shown

    def on_record(self) -> dict[str, str]:
        return dict(self._database.ask(ON_RECORD))

    def notes(self, schemas: tuple[str, ...]) -> list[Note]:
        return [note for note in notes.of_kinds(self._database, schemas) if note.store_id not in self._origins.ids]

    def open_runs(self) -> list[tuple[int, str]]:
        sql = f"SELECT run_no, run_id FROM :schema.runs WHERE {OPEN} AND run_no > %s ORDER BY run_no"
        return self._database.ask(sql, (self._origins.last_run,))

    def commits(self, run_no: int) -> int | None:
        ((last,),) = self._database.ask("SELECT max(n) FROM :schema.commits WHERE run_no = %s", (run_no,))
        return None if last is None else int(last)

    def body(self, run_no: int, n: int) -> bytes | None:
        rows = self._database.ask("SELECT body FROM :schema.commits WHERE run_no = %s AND n = %s", (run_no, n))
        return Codec().unpack(rows[0][0]) if rows else None

    def transact(self, act: Callable[[KeyWriting], T]) -> T:
        def locked(db: Asks) -> T:
            db.ask(key_rows.LOCK)
            return act(KeyRowsWriting(db, self._store_id))

        return self._database.transact(locked)


class KeyRowsWriting:
    """`reenact.store.keys.keeper.KeyWriting` in the transaction that was begun."""

    def __init__(self, db: Asks, store_id: str) -> None:
        self._db = db
        self._store_id = store_id
        self.idempotency: IdempotencyRows = key_rows.KeyRows(db)

    def has_begun(self) -> bool:
        sql = "SELECT 1 FROM :schema.notes WHERE schema = 'reenact.signing.v1' AND store_id = %s LIMIT 1"
        return bool(self._db.ask(sql, (self._store_id,)))

    def on_record(self) -> dict[str, str]:
        return dict(self._db.ask(ON_RECORD))

    def put_on_record(self, key: SigningKey) -> None:
        sql = "INSERT INTO :schema.keys VALUES (%s, %s) ON CONFLICT DO NOTHING"
        self._db.ask(sql, (key.kid, key.public_key))

    def write(self, note: Note) -> None:
        notes.write(self._db, note)

    def last_erasure(self) -> tuple[int, bytes] | None:
        return last_erasure(self._db)

    def last_seal(self) -> tuple[int, str] | None:
        rows = self._db.ask("SELECT id, seal_digest FROM :schema.seals ORDER BY id DESC LIMIT 1")
        return rows[0] if rows else None

    def leases(self) -> list[tuple[str, str | None, bool]]:
        rows = f"SELECT run_id, owner, expires_ms > :schema.now_ms() FROM :schema.runs WHERE {OPEN}"
        return self._db.ask(f"{rows} ORDER BY run_no FOR NO KEY UPDATE")


def last_erasure(db: Asks) -> tuple[int, bytes] | None:
    rows = db.ask(LAST_ERASURE)
    return rows[0] if rows else None


def sign_erasures(db: Asks, key: SigningKey, store_id: str, seal: Seal) -> None:
    """With the first seal after an erasure: how many there are and the head of their chain, signed."""
    last = last_erasure(db)
    if last is None:
        return
    signed = db.ask(LAST_SEALED, (SEALED_ERASURES,))
    raw = sealed_erasures(last, signed[0][0] if signed else None, seal)
    if raw is not None:
        notes.write(db, sign_at_once(key, SEALED_ERASURES, store_id, sha256(raw).hexdigest(), raw))
