"""The rows of a commit: what `append` writes, inside the transaction that the store has begun for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

from msgspec import UNSET

from reenact.contracts.records import Seal
from reenact.errors import ConcurrentExecution, LockAcquireFailed, StoreError, UsageError
from reenact.journal import chain
from reenact.journal.chain import encode
from reenact.store.base import INDEXED_CONTENT, LEASE_MS, PAYLOAD_BITS, Appended, Lease, NewPayload, NewRun, Unit
from reenact.store.beside.idempotency import IdempotencyKeys
from reenact.store.compression import RAW, SMALL
from reenact.store.deltas import DeltaBases, Row
from reenact.store.keys.notes import sign_at_once
from reenact.store.signing import BegunMac, KeyOf, SigningKey, frontier_mac, missing_key
from reenact.store.sqlite import money, votes
from reenact.store.sqlite.connection import Connection
from reenact.store.sqlite.keys import KeyRows
from reenact.store.sqlite.signed import key_history, notes
from reenact.values.clock import Clock
from reenact.values.digest import ZERO_DIGEST

FENCE = (
    "SELECT run_no, token, cancel, coalesce((SELECT max(id) FROM commits WHERE id > run_no << 24 "
    "AND id < (run_no + 1) << 24), 0) & 16777215 FROM runs WHERE run_id = ?"
)
SHARE = (
    "INSERT OR IGNORE INTO shared_payloads SELECT ?, commitment, id FROM payloads "
    "WHERE id >= ? AND id < ? AND commitment = ?"
)

MOST_BEGUN = 1000


class Appender:
    """Writes units through one connection. What is refused raises, and is for the caller to roll back."""

    def __init__(
        self, connection: Connection, clock: Clock, store_id: str, own_key: Callable[[], SigningKey], key_of: KeyOf,
        idempotency: IdempotencyKeys,
    ) -> None:  # fmt: skip
        self._connection = connection
        self._clock = clock
        self._store_id = store_id
        self._own_key = own_key
        self._key_of = key_of
        self._begun: dict[tuple[str, str], tuple[SigningKey, BegunMac]] = {}
        """For the runs of late: what the MACs of all their heads begin with."""
        self._bases = DeltaBases()
        self._idempotency = idempotency

    def append(self, unit: Unit, lease: Lease | None, owner: str) -> Appended:
        """A new run where there is no lease yet. Bodies are as they were given, but for a seal, which is put behind."""
        db = self._connection.cursor
        if lease is None:
            run_no, lease = self._insert_run(db, unit, owner)
        else:
            run_no, lease = self._check_fence(db, unit, lease)
        if unit.reservations or unit.completions or unit.shared or unit.spent or unit.ended or unit.earmarks:
            write_rare_parts(db, unit, run_no, self._clock.now_ms(), self._idempotency)
        seal, body = unit.seal, unit.body
        if seal is not None and seal.seal_digest is UNSET:
            seal = chain.seal_behind(body, seal, last_seal(db))
            body += chain.seal_line(seal)
        commit_id, digest, (key, begun) = run_no << 24 | unit.n, sha256(body), self._begin_mac(lease)
        head, packed = digest.hexdigest(), self._connection.codec.pack_body(body)
        inner, outer = begun.inner.copy(), begun.outer.copy()
        inner.update(f',{unit.n},"{head}"]'.encode())
        outer.update(inner.digest())
        mac = key.kid_bytes + outer.digest()
        db.execute("INSERT INTO commits VALUES (?, ?, ?, ?)", (commit_id, packed, digest.digest(), mac))
        if unit.payloads:
            self._insert_payloads(db, run_no, commit_id << PAYLOAD_BITS, unit.payloads)
        for trace in unit.traces:
            row = (run_no << 24 | trace.step_index, trace.trace_id, trace.step_id, unit.n)
            db.execute("INSERT INTO traces VALUES (?, ?, ?, ?)", row)
        if unit.frontier is not None:
            mac = frontier_mac(key, self._store_id, unit.run_id, unit.n, unit.frontier)
            db.execute("INSERT INTO run_checkpoints VALUES (?, ?, ?)", (commit_id, unit.frontier, mac))
        for schema, signed in unit.signs:
            notes.write(db, sign_at_once(key, schema, self._store_id, signed))
        if seal is not None:
            end_run(db, run_no, seal)
            notes.write(db, sign_at_once(key, str(seal.schema), self._store_id, str(seal.seal_digest)))
            key_history.sign_erasures(db, key, self._store_id, seal)
        return Appended(lease, head, seal)

    def _begin_mac(self, lease: Lease) -> tuple[SigningKey, BegunMac]:
        """The key that the run goes on with, and what it begins the MAC of a head with: as `head_mac` does."""
        found = self._begun.get((lease.run_id, lease.kid))
        if found is None:
            key = self._key_of(lease.kid) if lease.kid else self._own_key()
            if key is None:
                raise missing_key(lease.run_id, lease.kid)
            if len(self._begun) >= MOST_BEGUN:
                self._begun.clear()
            begun = key.mac.then(encode(["reenact.head.v1", self._store_id, lease.run_id])[:-1])
            found = self._begun[lease.run_id, lease.kid] = key, begun
        return found

    def _insert_run(self, db: sqlite3.Cursor, unit: Unit, owner: str) -> tuple[int, Lease]:
        """(number of the run, its first lease)"""
        run = unit.new_run
        assert run is not None
        if db.execute("SELECT 1 FROM runs WHERE run_id = ?", (unit.run_id,)).fetchone() is not None:
            raise UsageError(
                f"there is a run {unit.run_id} in sqlite:///{self._connection.path} already; "
                "leave the id out to get a new one"
            )
        if run.session is not None:
            refuse_taken(db, run)
        expires = self._clock.now_ms() + LEASE_MS
        db.execute(
            "INSERT INTO runs (run_id, kind, mode, parent_run, plan_id, agent_id, status, started_at, "
            "dedupe_key, owner, token, expires_ms, session) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
            (
                unit.run_id, run.kind, run.mode, run.parent_run, run.plan_id, run.agent_id, unit.status or "running",
                run.started_at, run.dedupe_key, owner, expires, run.session,
            ),
        )  # fmt: skip
        run_no = db.lastrowid
        assert run_no is not None
        if run.session is not None:
            rows = KeyRows(db.execute)
            self._idempotency.hold_session(rows, run.agent_id, run.session, run_no, unit.run_id, run.parent_run)
        kid = self._own_key().kid
        until = self._clock.monotonic() + LEASE_MS / 1000
        return run_no, Lease(unit.run_id, owner, 1, expires, kid=kid, until=until)

    def _check_fence(self, db: sqlite3.Cursor, unit: Unit, lease: Lease) -> tuple[int, Lease]:
        """(number of the run, lease). Nothing is written for it: a commit costs the pages of its own rows."""
        row = self._connection.unchecked.execute(FENCE, (unit.run_id,)).fetchone()
        if row is None or row[1] != lease.token or row[3] != unit.n - 1 or row[2] is not None:
            row = db.execute(FENCE, (unit.run_id,)).fetchone()
        if row is None or row[1] != lease.token or row[3] != unit.n - 1:
            raise ConcurrentExecution(
                f"run {unit.run_id}: another executor took over; this one wrote nothing. "
                f"See `reenact show {unit.run_id}`"
            )
        run_no, _, cancel, _ = row
        if unit.status is not None:
            db.execute("UPDATE runs SET status = ? WHERE run_no = ?", (unit.status, run_no))
        return run_no, lease if cancel is None else replace(lease, cancel=cancel)

    def _insert_payloads(self, db: sqlite3.Cursor, run_no: int, first: int, payloads: list[NewPayload]) -> None:
        """Envelopes with ids from `first` on; larger ones can be found again by their content."""
        if len(payloads) >> PAYLOAD_BITS:
            raise StoreError(f"a commit holds fewer than {1 << PAYLOAD_BITS} payloads, not {len(payloads)}")
        rows: list[Row] = []
        contents = []
        for payload_id, (commitment, content_key, envelope) in enumerate(payloads, first):
            digest = bytes.fromhex(commitment)
            if len(envelope) < SMALL:  # as most are: it would be stored as it is
                rows.append((payload_id, digest, RAW + envelope))
            else:
                stored = self._bases.pack(self._kept, self._connection.codec, rows, payload_id, digest, envelope)
                rows.append((payload_id, digest, stored))
            if content_key and len(envelope) >= INDEXED_CONTENT:
                contents.append((run_no, content_key, payload_id, digest))
        db.executemany("INSERT INTO payloads VALUES (?, ?, ?)", rows)
        if contents:
            db.executemany("INSERT OR IGNORE INTO contents VALUES (?, ?, ?, ?)", contents)

    def _kept(self, payload_id: int) -> bytes | None:
        """The commitment of a payload that is there, for this transaction."""
        row = self._connection.cursor.execute("SELECT commitment FROM payloads WHERE id = ?", (payload_id,)).fetchone()
        return None if row is None else row[0]


def refuse_taken(db: sqlite3.Cursor, run: NewRun) -> None:
    """An id of a session is an agent's once, but for the run that continues the one that has it."""
    taken = db.execute(
        "SELECT run_id FROM runs WHERE session = ? AND agent_id = ? ORDER BY run_no DESC LIMIT 1",
        (run.session, run.agent_id),
    ).fetchone()
    if taken is not None and taken[0] != run.parent_run:
        raise LockAcquireFailed(f"another process has just begun session {run.session!r} of agent {run.agent_id}")


def write_rare_parts(db: sqlite3.Cursor, unit: Unit, run_no: int, now_ms: int, keys: IdempotencyKeys) -> None:
    """What most commits do not have: keys, shared payloads, money."""
    for reservation in unit.reservations:
        keys.reserve(KeyRows(db.execute), reservation, run_no)
    if unit.ended:
        money.free(db, run_no, unit.ended)
    for done in unit.completions:
        keys.complete(KeyRows(db.execute), done)
    for commitment, n in unit.shared:
        first = (run_no << 24 | n) << PAYLOAD_BITS
        db.execute(SHARE, (run_no, first, first + (1 << PAYLOAD_BITS), bytes.fromhex(commitment)))
    if unit.spent:
        money.spend(db, unit.spent, keys)
    for earmark in unit.earmarks:  # after what this commit itself spends
        money.set_apart(db, earmark, run_no, now_ms, keys)


def last_seal(db: sqlite3.Cursor) -> str:
    row = db.execute("SELECT seal_digest FROM seals ORDER BY id DESC LIMIT 1").fetchone()
    return str(row[0]) if row else ZERO_DIGEST


def end_run(db: sqlite3.Cursor, run_no: int, seal: Seal) -> None:
    """What goes with a seal: nobody votes on the run any more, and nothing is set apart for it."""
    db.execute("INSERT INTO seals (run_no, seal_digest) VALUES (?, ?)", (run_no, seal.seal_digest))
    votes.burn(db, run_no)
    money.free_all(db, run_no)
