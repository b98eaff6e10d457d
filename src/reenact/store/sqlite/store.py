"""The embedded store: one SQLite file in WAL mode, `synchronous=FULL`, one row per commit and run."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from hashlib import sha256

from reenact.contracts.records import RunStatus
from reenact.errors import ConcurrentExecution, ReenactError, StoreError, UsageError
from reenact.store.base import (
    INDEXED_CONTENT,
    LEASE_MS,
    PAYLOAD_BITS,
    Erasing,
    LateEffect,
    Lease,
    NewPayload,
    Unit,
)
from reenact.store.compression import RAW
from reenact.store.deltas import DeltaBases, Row
from reenact.store.signing import sign_frontier
from reenact.store.sqlite import leases, money, votes
from reenact.store.sqlite.connection import translate
from reenact.store.sqlite.erasing import empty_log, erase
from reenact.store.sqlite.keys import reserve_key
from reenact.store.sqlite.reader import SqliteReader
from reenact.values.clock import Door


class SqliteStore(SqliteReader):
    """`reenact.store.base.Store` on one file. Safe to use from several threads and processes.

    `to_read` opens it also where nothing can be written; what then tries to write raises `StoreUnavailable`.
    """

    def __init__(self, url: str | None = None, *, door: Door | None = None, to_read: bool = False) -> None:
        super().__init__(url, door=door, to_read=to_read)
        self._bases = DeltaBases()

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, unit: Unit, lease: Lease | None, *, owner: str = "") -> Lease:
        """One commit of one run, durable when this returns."""
        self._prepare_key(unit)
        with self._writer.transaction():
            return self._append(self._writer.cursor, unit, lease, owner)

    def append_many(self, units: list[tuple[Unit, Lease | None, str]]) -> list[Lease | Exception]:
        """Several runs in one transaction. A unit that is refused is taken out; the others are not rolled back."""
        results: list[Lease | Exception] = []
        self._prepare_key(*(unit for unit, _, _ in units))
        db = self._writer.cursor
        with self._writer.transaction():
            for unit, lease, owner in units:
                db.execute("SAVEPOINT unit")
                try:
                    results.append(self._append(db, unit, lease, owner))
                except ReenactError as refused:
                    db.execute("ROLLBACK TO unit")
                    results.append(refused)
                except sqlite3.IntegrityError as refused:
                    db.execute("ROLLBACK TO unit")
                    results.append(translate(refused, self.path))
                db.execute("RELEASE unit")
        return results

    def _prepare_key(self, *units: Unit) -> None:
        """To make the store's key is a transaction of its own; to sign with it is not."""
        if self._key is None and any(unit.frontier is not None for unit in units):
            assert self.signing_key.kid

    def _append(self, db: sqlite3.Cursor, unit: Unit, lease: Lease | None, owner: str) -> Lease:
        if lease is None:
            held = self._insert_run(db, unit, owner, self.door.now_ms())
        else:
            held = self._check_fence(db, unit, lease)
        for reservation in unit.reservations:
            reserve_key(db, reservation, held.run_no)
        if unit.has_rare_parts:
            write_rare_parts(db, unit, held.run_no)
        for earmark in unit.earmarks:  # after what this commit itself spends
            money.set_apart(db, earmark, held.run_no, self.door.now_ms())
        if len(unit.payloads) >> PAYLOAD_BITS:
            raise StoreError(f"run {unit.run_id}: a commit holds fewer than {1 << PAYLOAD_BITS} payloads")
        body, seal_digest = unit.body(lambda: last_seal(db))
        commit_id = held.run_no << 24 | unit.n
        codec = self._writer.codec
        unit.digest = sha256(body).digest()
        db.execute("INSERT INTO commits VALUES (?, ?, ?)", (commit_id, codec.pack_body(body), unit.digest))
        if unit.payloads:
            self._insert_payloads(db, held.run_no, commit_id << PAYLOAD_BITS, unit.payloads)
        for trace in unit.traces:
            db.execute(
                "INSERT INTO traces VALUES (?, ?, ?, ?)",
                (held.run_no << 24 | trace.step_index, trace.trace_id, trace.step_id, unit.n),
            )
        if unit.frontier is not None:
            signed = sign_frontier(self.signing_key, commit_id, unit.frontier)
            db.execute("INSERT INTO run_checkpoints VALUES (?, ?)", (commit_id, signed))
        if seal_digest is not None:
            db.execute("INSERT INTO seals (run_no, seal_digest) VALUES (?, ?)", (held.run_no, seal_digest))
            votes.burn(db, held.run_no)
            money.free_all(db, held.run_no)
        return held

    def _insert_payloads(self, db: sqlite3.Cursor, run_no: int, first: int, payloads: list[NewPayload]) -> None:
        """Envelopes with ids from `first` on; larger ones can be found again by their content."""
        rows: list[Row] = []
        contents = []

        def kept(base: int) -> bytes | None:
            row = db.execute("SELECT commitment FROM payloads WHERE id = ?", (base,)).fetchone()
            return None if row is None else row[0]

        for payload_id, (commitment, content_key, envelope) in enumerate(payloads, first):
            digest = bytes.fromhex(commitment)
            if len(envelope) < INDEXED_CONTENT:
                rows.append((payload_id, digest, RAW + envelope))
                continue
            stored = self._bases.pack(kept, self._writer.codec, rows, payload_id, digest, envelope)
            rows.append((payload_id, digest, stored))
            if content_key:
                contents.append((run_no, content_key, payload_id, digest))
        db.executemany("INSERT INTO payloads VALUES (?, ?, ?)", rows)
        if contents:
            db.executemany("INSERT OR IGNORE INTO contents VALUES (?, ?, ?, ?)", contents)

    def _insert_run(self, db: sqlite3.Cursor, unit: Unit, owner: str, now: int) -> Lease:
        run = unit.new_run
        assert run is not None
        if db.execute("SELECT 1 FROM runs WHERE run_id = ?", (unit.run_id,)).fetchone() is not None:
            raise UsageError(f"there is a run {unit.run_id} in {self.url} already; leave the id out to get a new one")
        expires = now + LEASE_MS
        cursor = db.execute(
            "INSERT INTO runs (run_id, kind, mode, parent_run, plan_id, agent_id, status, started_at, "
            "dedupe_key, owner, token, expires_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?)",
            (
                unit.run_id, run.kind, run.mode, run.parent_run, run.plan_id, run.agent_id, unit.status or "running",
                run.started_at, run.dedupe_key, owner, expires,
            ),
        )  # fmt: skip
        assert cursor.lastrowid is not None
        return Lease(run_id=unit.run_id, run_no=cursor.lastrowid, owner=owner, token=1, expires_ms=expires)

    def _check_fence(self, db: sqlite3.Cursor, unit: Unit, lease: Lease) -> Lease:
        """Compared inside the transaction. Nothing is written for it: a commit costs the pages of its own rows."""
        base = lease.run_no << 24
        row = db.execute(
            "SELECT token, cancel, (SELECT max(id) FROM commits WHERE id > ? AND id < ?) FROM runs WHERE run_no = ?",
            (base, base + (1 << 24), lease.run_no),
        ).fetchone()
        if row is None or row[0] != lease.token or (row[2] or base) != base + unit.n - 1:
            raise ConcurrentExecution(
                f"run {unit.run_id}: another executor took over; this one wrote nothing. "
                f"See `reenact show {unit.run_id}`"
            )
        if unit.status is not None:
            db.execute("UPDATE runs SET status = ? WHERE run_no = ?", (unit.status, lease.run_no))
        return lease if row[1] is None else replace(lease, cancel=row[1])

    # -- leases ----------------------------------------------------------------------------------------------------

    def acquire(self, run_id: str, owner: str) -> Lease:
        """The run's lease, when it is free, lapsed, or held by a process of this host that is gone."""
        return leases.acquire(self._writer, run_id, owner, self.door)

    def renew(self, held: list[Lease]) -> list[Lease]:
        """Heartbeat: the leases that still hold, with their new ends. One that was lost is not among them."""
        return leases.renew(self._writer, held, self.door)

    def release(self, lease: Lease, status: RunStatus | None = None) -> None:
        """Only the owner releases; a lease that was taken over is left alone."""
        leases.release(self._writer, lease, status)

    def request_cancel(self, run_id: str, note: str) -> None:
        """Whoever works on the run learns of it with the next commit."""
        with self._writer.transaction() as db:
            db.execute("UPDATE runs SET cancel = ? WHERE run_id = ?", (note, run_id))

    def cast_vote(self, run_id: str, trace_id: str, body: bytes, *, settles: bool) -> bool:
        """A vote for whoever holds the run; False when there is one about this call, or the run has ended."""
        return votes.put_in(self._writer, run_id, trace_id, body, settles=settles)

    # -- beside the journal ----------------------------------------------------------------------------------------

    def add_late_effect(self, run_id: str, late: LateEffect) -> None:
        run_no = self._run_no(run_id)
        with self._writer.transaction() as db:
            db.execute(
                "INSERT INTO late_effects (run_no, trace_id, body) VALUES (?, ?, ?)", (run_no, late.trace_id, late.body)
            )

    def erase(self, erasing: Erasing) -> int:
        """Take values out, each with its record, in one transaction; how many are gone."""
        return erase(self._writer, erasing, self.door)

    def scrub(self) -> None:
        """Rid the file of what erased values left behind beside their rows; StoreBusy while a reader is in the way."""
        empty_log(self._writer)


def last_seal(db: sqlite3.Cursor) -> str:
    row = db.execute("SELECT seal_digest FROM seals ORDER BY id DESC LIMIT 1").fetchone()
    return str(row[0]) if row else "0" * 64


def write_rare_parts(db: sqlite3.Cursor, unit: Unit, run_no: int) -> None:
    """What most commits do not have: completed keys, shared payloads, spending."""
    if unit.ended:
        money.free(db, run_no, unit.ended)
    for done in unit.completions:
        db.execute(
            "UPDATE idempotency SET state = ? WHERE server = ? AND tool = ? AND key = ? AND trace_id = ?",
            (done.state, done.server, done.tool, done.key, done.trace_id),
        )
    for commitment, payload_id in unit.shared:
        db.execute(
            "INSERT OR IGNORE INTO shared_payloads VALUES (?, ?, ?)", (run_no, bytes.fromhex(commitment), payload_id)
        )
    money.spend(db, unit.spent)
