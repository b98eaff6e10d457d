"""The embedded store: one SQLite file in WAL mode, `synchronous=FULL`, one row per commit and run."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from reenact.contracts.records import RunStatus
from reenact.errors import (
    ConcurrentExecution,
    LockAcquireFailed,
    ReenactError,
    RunNotFound,
    StoreError,
    UsageError,
)
from reenact.store.base import (
    PAYLOAD_BITS,
    Guard,
    KeyRecord,
    LateEffect,
    Lease,
    NewPayload,
    RunRow,
    TraceRow,
    Unit,
)
from reenact.store.compression import RAW
from reenact.store.damage import blob, refuse_other_tail
from reenact.store.deltas import DeltaBases, Row
from reenact.store.location import sqlite_path
from reenact.store.owner import is_out_of_sight, owner_is_gone
from reenact.store.signing import SigningKey, load_or_create, sign_frontier, signed_frontier
from reenact.store.sqlite import money, votes
from reenact.store.sqlite.connection import Connection, translate
from reenact.store.sqlite.key_values import KeyValues
from reenact.store.sqlite.keys import reserve_key
from reenact.store.sqlite.reading import open_to_read
from reenact.store.sqlite.unattended import unattended
from reenact.values.clock import Door, SystemDoor

LEASE_MS = 10_000
INDEXED_CONTENT = 256
"""Envelopes from this size on are found again by content after any number of others; smaller ones only while recent."""

RUN_COLUMNS = (
    "run_id, run_no, kind, mode, status, plan_id, agent_id, parent_run, "
    "coalesce((SELECT max(id) FROM commits WHERE id >> 24 = run_no AND id >= run_no << 24 "
    "AND id < (run_no + 1) << 24), 0) & 16777215, started_at"
)


class SqliteStore:
    """`reenact.store.base.Store` on one file. Safe to use from several threads and processes.

    `to_read` opens it also where nothing can be written; what then tries to write raises `StoreUnavailable`.
    """

    def __init__(self, url: str | None = None, *, door: Door | None = None, to_read: bool = False) -> None:
        path = sqlite_path(url)
        if path != ":memory:":
            path = str(Path(path).absolute())  # connections are opened later too, and the process may have moved
        self.path = path
        self.url = "sqlite:///" + path
        self.door: Door = door or SystemDoor()
        self._connect = open_to_read if to_read else Connection
        self._writer = self._connect(path)
        self._bases = DeltaBases()
        self._local = threading.local()
        self._readers: list[Connection] = []
        self.store_id = self._identify()
        self._key: SigningKey | None = None

    # -- identity and keys -----------------------------------------------------------------------------------------

    def _identify(self) -> str:
        rows = self._writer.query("SELECT value FROM store WHERE key = 'store_id'")
        if not rows:
            with self._writer.transaction() as db:
                db.execute("INSERT OR IGNORE INTO store VALUES ('store_id', ?)", (self.door.uuid7(),))
            rows = self._writer.query("SELECT value FROM store WHERE key = 'store_id'")
        return str(rows[0][0])

    @property
    def signing_key(self) -> SigningKey:
        """The store's own key; its public half is kept among `public_keys`."""
        if self._key is None:
            key = load_or_create(None if self.path == ":memory:" else Path(f"{self.path}.key"))
            if key.kid not in self.public_keys():
                with self._writer.transaction() as db:
                    db.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (key.kid, key.public_key))
            self._key = key
        return self._key

    def key_values(self, agent_id: str, redact: Guard, decrypt: Guard) -> KeyValues:
        """The agent's own key-value map in this store."""
        return KeyValues(self._writer, agent_id, redact, decrypt)

    def public_keys(self) -> dict[str, str]:
        return dict(self._reader().query("SELECT kid, public_key FROM keys ORDER BY kid"))

    def erasures(self) -> list[bytes]:
        """The canonical records of what was erased, in the order of their chain."""
        return [bytes(row[0]) for row in self._reader().query("SELECT body FROM erasures ORDER BY id")]

    @property
    def writer(self) -> Connection:
        """The connection that writes, for what stands beside the journal."""
        return self._writer

    def _reader(self) -> Connection:
        """A connection of this thread, so that reading never waits for a writer."""
        if self.path == ":memory:":
            return self._writer
        reader: Connection | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._connect(self.path)
            self._local.reader = reader
            self._readers.append(reader)
        return reader

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
        for payload_id, (commitment, content_key, envelope) in enumerate(payloads, first):
            digest = bytes.fromhex(commitment)
            if len(envelope) < INDEXED_CONTENT:
                rows.append((payload_id, digest, RAW + envelope))
                continue
            stored = self._bases.pack(db, self._writer.codec, rows, payload_id, digest, envelope)
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
        with self._writer.transaction() as db:
            row = db.execute(
                "SELECT run_no, owner, token, expires_ms, cancel FROM runs WHERE run_id = ?", (run_id,)
            ).fetchone()
            if row is None:
                raise RunNotFound(f"no run {run_id} in {self.url}")
            run_no, holder, token, expires, cancel = row
            refuse_other_tail(db, self._writer.codec, run_id, run_no)
            now = self.door.now_ms()
            if holder is not None and now < expires and not owner_is_gone(holder):
                raise LockAcquireFailed(
                    f"run {run_id} is being worked on by {' process '.join(holder.split('|')[:2])}; "
                    f"its lease ends in {(expires - now) / 1000:.0f} s unless renewed",
                    free_in_s=(expires - now) / 1000 if is_out_of_sight(holder) and expires <= now + LEASE_MS else None,
                )
            lease = Lease(run_id, run_no, owner, token + 1, now + LEASE_MS, cancel)
            db.execute(
                "UPDATE runs SET owner = ?, token = ?, expires_ms = ? WHERE run_no = ?",
                (owner, lease.token, lease.expires_ms, run_no),
            )
            return lease

    def renew(self, leases: list[Lease]) -> list[Lease]:
        """Heartbeat: the leases that still hold, with their new ends. One that was lost is not among them."""
        kept = []
        self._writer.check_place()
        with self._writer.transaction() as db:
            expires = self.door.now_ms() + LEASE_MS
            for lease in leases:
                row = db.execute(
                    "UPDATE runs SET expires_ms = ? WHERE run_no = ? AND token = ? AND owner = ? RETURNING cancel",
                    (expires, lease.run_no, lease.token, lease.owner),
                ).fetchone()
                if row is not None:
                    kept.append(replace(lease, expires_ms=expires, cancel=row[0]))
        return kept

    def release(self, lease: Lease, status: RunStatus | None = None) -> None:
        """Only the owner releases; a lease that was taken over is left alone."""
        with self._writer.transaction() as db:
            db.execute(
                "UPDATE runs SET owner = NULL, expires_ms = 0, status = coalesce(?, status) "
                "WHERE run_no = ? AND token = ? AND owner = ?",
                (status, lease.run_no, lease.token, lease.owner),
            )

    def request_cancel(self, run_id: str, note: str) -> None:
        """Whoever works on the run learns of it with the next commit."""
        with self._writer.transaction() as db:
            db.execute("UPDATE runs SET cancel = ? WHERE run_id = ?", (note, run_id))

    def cancel_request(self, run_id: str) -> str | None:
        rows = self._reader().query("SELECT cancel FROM runs WHERE run_id = ?", (run_id,))
        return rows[0][0] if rows else None

    def cast_vote(self, run_id: str, trace_id: str, body: bytes, *, settles: bool) -> bool:
        """A vote for whoever holds the run; False when there is one about this call, or the run has ended."""
        return votes.put_in(self._writer, run_id, trace_id, body, settles=settles)

    # -- reading ---------------------------------------------------------------------------------------------------

    def pending_votes(self, run_id: str) -> dict[str, bytes]:
        """What was cast about calls of a run that has not ended, by trace id."""
        return votes.of_run(self._reader(), run_id)

    def find_run(self, prefix: str) -> RunRow:
        """The run whose id starts with `prefix`; `last` is the newest one."""
        if prefix == "last":
            rows = self._reader().query(f"SELECT {RUN_COLUMNS} FROM runs ORDER BY run_no DESC LIMIT 1")
        else:
            rows = self._reader().query(  # constant columns
                f"SELECT {RUN_COLUMNS} FROM runs WHERE run_id >= ? AND run_id < ? LIMIT 2",
                (prefix, prefix + "~"),
            )
        if not rows or not prefix:
            raise RunNotFound(f"no run {prefix!r} in {self.url}; `reenact ls` lists what is there")
        if len(rows) > 1:
            raise RunNotFound(f"{prefix!r} is the beginning of several run ids; give more of it")
        return RunRow(*rows[0])

    def runs(self, *, status: tuple[RunStatus, ...] | None = None, limit: int | None = None) -> list[RunRow]:
        where = f"WHERE status IN ({', '.join('?' * len(status))})" if status else ""
        sql = f"SELECT {RUN_COLUMNS} FROM runs {where} ORDER BY run_no DESC LIMIT ?"
        return [RunRow(*row) for row in self._reader().query(sql, (*(status or ()), -1 if limit is None else limit))]

    def unattended(self) -> frozenset[str]:
        return unattended(self._reader(), self.door.now_ms())

    def _run_no(self, run_id: str) -> int:
        rows = self._reader().query("SELECT run_no FROM runs WHERE run_id = ?", (run_id,))
        if not rows:
            raise RunNotFound(f"no run {run_id} in {self.url}")
        return int(rows[0][0])

    def dedupe_key(self, run_id: str) -> bytes:
        rows = self._reader().query("SELECT dedupe_key FROM runs WHERE run_id = ?", (run_id,))
        if not rows:
            raise RunNotFound(f"no run {run_id} in {self.url}")
        return bytes(rows[0][0])

    def bodies(self, run_id: str, *, after: int = 0) -> Iterator[bytes]:
        """The run's commit bodies in order, read in small batches, from the commit behind `after` on."""
        base = self._run_no(run_id) << 24
        reader, last = self._reader(), base + after
        while rows := reader.query(
            "SELECT id, body FROM commits WHERE id > ? AND id < ? ORDER BY id LIMIT 64", (last, base + (1 << 24))
        ):
            for row_id, body in rows:
                yield reader.codec.unpack(blob(body, f"run {run_id}, commit {row_id - base}"))
                last = row_id

    def body(self, run_id: str, n: int) -> bytes | None:
        reader = self._reader()
        rows = reader.query("SELECT body FROM commits WHERE id = ?", (self._run_no(run_id) << 24 | n,))
        return reader.codec.unpack(blob(rows[0][0], f"run {run_id}, commit {n}")) if rows else None

    def latest_frontier(self, run_id: str) -> tuple[int, bytes] | None:
        """(commit, frontier) of the run's last run checkpoint, as this store's key signed it."""
        low = self._run_no(run_id) << 24
        rows = self._reader().query(
            "SELECT id, frontier FROM run_checkpoints WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1",
            (low, low + (1 << 24) - 1),
        )
        frontier = signed_frontier(self.signing_key, rows[0][0], rows[0][1]) if rows else None
        return None if frontier is None else (rows[0][0] - low, frontier)

    def trace(self, trace_id: str, *, run_id: str | None = None) -> TraceRow | None:
        """Where a trace stands. Naming its run saves a walk over the traces of all others."""
        if run_id is None:
            return self._trace("WHERE t.trace_id = ?", trace_id)
        low = self._run_no(run_id) << 24
        return self._trace("WHERE t.trace_id = ? AND t.id BETWEEN ? AND ?", trace_id, low, low + (1 << 24) - 1)

    def trace_at(self, run_id: str, step_index: int) -> TraceRow | None:
        return self._trace("WHERE t.id = ?", self._run_no(run_id) << 24 | step_index)

    def step_ids(self, run_id: str) -> list[str]:
        """In request order."""
        low = self._run_no(run_id) << 24
        rows = self._reader().query(
            "SELECT step_id FROM traces WHERE id BETWEEN ? AND ? ORDER BY id", (low, low + (1 << 24) - 1)
        )
        return [row[0] for row in rows]

    def _trace(self, where: str, *values: object) -> TraceRow | None:
        rows = self._reader().query(
            "SELECT t.trace_id, r.run_id, t.id & 16777215, t.step_id, t.commit_n FROM traces t "
            f"JOIN runs r ON r.run_no = t.id >> 24 {where}",
            values,
        )
        return TraceRow(*rows[0]) if rows else None

    def payload(self, run_id: str, commitment: str, *, near: int | None = None) -> bytes | None:
        """The envelope behind a commitment. `near` is the commit that names it: there it is found at once."""
        reader, run_no, wanted = self._reader(), self._run_no(run_id), bytes.fromhex(commitment)
        if near is not None:
            low = (run_no << 24 | near) << PAYLOAD_BITS
            rows = reader.query(
                "SELECT body FROM payloads WHERE id BETWEEN ? AND ? AND commitment = ?",
                (low, low + (1 << PAYLOAD_BITS) - 1, wanted),
            )
            if rows:
                return reader.envelope(rows[0][0])
        rows = reader.query(
            "SELECT p.body FROM shared_payloads s JOIN payloads p ON p.id = s.payload_id "
            "WHERE s.run_no = ? AND s.commitment = ? AND p.commitment = ?",
            (run_no, wanted, wanted),
        )
        if not rows:
            low = run_no << 24 + PAYLOAD_BITS
            rows = reader.query(
                "SELECT body FROM payloads WHERE id >= ? AND id < ? AND commitment = ?",
                (low, low + (1 << 24 + PAYLOAD_BITS), wanted),
            )
        return reader.envelope(rows[0][0]) if rows else None

    def payloads(self, run_id: str) -> Iterator[tuple[str, bytes]]:
        low = self._run_no(run_id) << 24 + PAYLOAD_BITS
        reader, last = self._reader(), low - 1
        while rows := reader.query(
            "SELECT id, commitment, body FROM payloads WHERE id > ? AND id < ? ORDER BY id LIMIT 64",
            (last, low + (1 << 24 + PAYLOAD_BITS)),
        ):
            for row_id, commitment, body in rows:
                yield blob(commitment, "payloads").hex(), reader.envelope(body)
                last = row_id

    def find_content(self, run_id: str, content_key: bytes) -> tuple[str, int] | None:
        """(commitment, payload id) of equal content in the run, for content large enough to be indexed."""
        rows = self._reader().query(
            "SELECT c.commitment, c.payload_id FROM runs r JOIN contents c ON c.run_no = r.run_no "
            "JOIN payloads p ON p.id = c.payload_id WHERE r.run_id = ? AND c.content_key = ?",
            (run_id, content_key),
        )
        return (rows[0][0].hex(), int(rows[0][1])) if rows else None

    def spent(self, day: str, agent_id: str) -> dict[str, int]:
        """Picodollars that an agent spent on a day, by model; "" stands for what no model did."""
        return {model: int(exact) for model, exact in self._reader().query(money.SPENT, (day, agent_id))}

    def set_apart(self, day: str, agent_id: str, besides: Collection[str] = ()) -> dict[str, int]:
        """Picodollars, by model, that an agent's calls in flight, but for the traces `besides`, may still cost.

        Only of runs with a limit that other runs count against.
        """
        return money.by_model(self._reader().query(money.LIVE, (day, agent_id, self.door.now_ms())), besides)

    def key_record(self, server: str, tool: str, key: str) -> KeyRecord | None:
        rows = self._reader().query(
            "SELECT i.server, i.tool, i.key, i.request_digest, i.agent_id, i.trace_id, r.run_id, i.state "
            "FROM idempotency i JOIN runs r ON r.run_no = i.run_no WHERE i.server = ? AND i.tool = ? AND i.key = ?",
            (server, tool, key),
        )
        return KeyRecord(*rows[0]) if rows else None

    def add_late_effect(self, run_id: str, late: LateEffect) -> None:
        run_no = self._run_no(run_id)
        with self._writer.transaction() as db:
            db.execute(
                "INSERT INTO late_effects (run_no, trace_id, body) VALUES (?, ?, ?)", (run_no, late.trace_id, late.body)
            )

    def late_effects(self, run_id: str, trace_id: str) -> list[LateEffect]:
        rows = self._reader().query(
            "SELECT trace_id, body FROM late_effects WHERE run_no = ? AND trace_id = ? ORDER BY id",
            (self._run_no(run_id), trace_id),
        )
        return [LateEffect(trace_id=row[0], body=row[1]) for row in rows]

    def close(self) -> None:
        for connection in (self._writer, *self._readers):
            connection.close()
        self._readers.clear()


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
