"""What is read from one SQLite file: runs, their journals and their values."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from hashlib import sha256
from pathlib import Path

from reenact.contracts.records import RunStatus
from reenact.errors import NotAuthentic, RunNotFound
from reenact.skills.services import KeyValueService, StoreFiles
from reenact.store.base import (
    PAYLOAD_BITS,
    Archive,
    BrokenLease,
    Guard,
    KeyKeeper,
    KeyRecord,
    LateEffect,
    OpenRun,
    RunRow,
    TraceRow,
)
from reenact.store.encryption import SUFFIX, KeyFile
from reenact.store.keys.here import KeysHere
from reenact.store.location import OwnFiles, sqlite_path
from reenact.store.signing import SigningKey, check_head, checked_frontier
from reenact.store.sqlite import leases, money
from reenact.store.sqlite.connection import Connection, Reads
from reenact.store.sqlite.evidence.evidence import NAMED, SqliteEvidence, copy_of, open_evidence
from reenact.store.sqlite.key_values import key_values
from reenact.store.sqlite.keys import IdempotencyKeys, KeyRows, another_session, is_linked
from reenact.store.sqlite.listed import runs as listed
from reenact.store.sqlite.listed.runs import RUN_COLUMNS
from reenact.store.sqlite.pool import Readers
from reenact.store.sqlite.read_only import open_to_read, unkept_steps
from reenact.store.sqlite.signed import heads
from reenact.store.sqlite.signed.key_history import IDENTITY, key_table, origins_in
from reenact.values.clock import Clock, SystemClock

ARCHIVES = (
    "SELECT a.bundle, a.place, (SELECT count(*) FROM archived v WHERE v.payload_id >= a.run_no << 36 "
    "AND v.payload_id < (a.run_no + 1) << 36 AND v.bundle = a.bundle) "
    "FROM archives a JOIN runs r ON r.run_no = a.run_no WHERE r.run_id = ? ORDER BY a.bundle"
)
ARCHIVED = "FROM archived WHERE payload_id >= ? << 36 AND payload_id < (? + 1) << 36"
SEALED_WITH_VALUES = (
    "SELECT r.run_id FROM runs r WHERE r.run_id > ? AND EXISTS (SELECT 1 FROM seals s WHERE s.run_no = r.run_no) "
    "AND EXISTS (SELECT 1 FROM payloads p WHERE p.id >= r.run_no << 36 AND p.id < (r.run_no + 1) << 36) "
    "ORDER BY r.run_id LIMIT 1000"
)


ENCRYPTED_WITH = "encrypted_with:"


class SqliteReader:
    """One store file, opened: its connections, its identity and key, and all that is only read."""

    leftovers: str | None = None

    def __init__(self, url: str | None = None, *, clock: Clock | None = None, to_read: bool = False) -> None:
        path = sqlite_path(url)
        if path != ":memory:":
            path = str(Path(path).absolute())  # connections are opened later too, and the process may have moved
        self.path = path
        self.url = "sqlite:///" + path
        self.in_memory = path == ":memory:"
        self.clock: Clock = clock or SystemClock()
        self._to_read = to_read
        self._writer = open_to_read(path) if to_read else Connection(path, shared=not self.in_memory)
        self._readers = Readers(self._writer, open_to_read if to_read else None)
        self.store_id, self.key_secret = self._identify()
        here = KeysHere(None if self.in_memory else Path(path))
        self.idempotency = IdempotencyKeys(self.store_id, lambda: self.signing_key, self.key_of)
        self.key_table: KeyKeeper = key_table(self._writer, self.store_id, here, self.clock, self.origins)
        self._key: SigningKey | None = None
        self._authenticated: set[str] = set()
        """Runs of which no commit is read whose head is not what a key of ours vouched for."""
        self._strict_from = heads.NEVER
        """The first run number of which that holds of itself."""
        beside = None if self.in_memory else Path(f"{path}{SUFFIX}")
        self.encryption_file: KeyFile | None = KeyFile(beside, note=self._note_encryption)
        self.files: StoreFiles = OwnFiles(None if self.in_memory else Path(path), here.elsewhere)

    # -- identity and keys -----------------------------------------------------------------------------------------

    def _identify(self) -> tuple[str, bytes]:
        """(id, key secret) of the store; of one that is only read there may be no secret yet, of a changed one none."""
        rows = self._writer.query(IDENTITY)
        if rows[0][0] is None or (rows[0][1] is None and not self._to_read):
            with self._writer.transaction() as db:
                db.execute("INSERT OR IGNORE INTO store VALUES ('store_id', ?)", (self.clock.uuid7(),))
                if not is_linked(KeyRows(db.execute)):  # else there was one
                    self._make_secret(db)
            rows = self._writer.query(IDENTITY)
        store_id, secret, copied = rows[0]
        self.origins = origins_in(copied)
        return str(store_id), secret or b""

    def _make_secret(self, db: sqlite3.Connection) -> None:
        if db.execute("SELECT 1 FROM key_secret").fetchone() is None:  # nobody else was faster
            db.execute("INSERT INTO key_secret VALUES (1, ?)", (self.clock.random_bytes(32),))

    @property
    def signing_key(self) -> SigningKey:
        """The key that signs for new runs; KeyUnavailable where it is not here."""
        if self._key is None:
            key = self.key_table.own_key()
            if not self._to_read:
                self._mark(key)
                if self.idempotency.check_secret(KeyRows(self._writer.query), self.key_secret):
                    with self._writer.transaction() as db:
                        IdempotencyKeys(self.store_id, lambda: key, self.key_of).bind(KeyRows(db.execute))
            self._key = key
        return self._key

    def _mark(self, key: SigningKey, *, vouches: bool = False) -> None:
        self._strict_from = heads.marked(
            self._writer, self.store_id, key, self.key_table, self.evidence, self.clock, self.origins, vouches=vouches
        )

    def vouch(self) -> int:
        """A person says that what is there is of before, or is right: how many commits nobody vouches for any more.

        Runs that verify as a whole get the MACs that are missing; idempotency keys, what they are made with and the ids
        of sessions are taken as they are found.
        """
        key = self.key_table.own_key()
        with self._writer.transaction() as db:
            self._make_secret(db)
        self._mark(key, vouches=True)
        self.store_id, self.key_secret = self._identify()
        ((left,),) = self._writer.query("SELECT count(*) FROM commits WHERE mac IS NULL")
        return int(left)

    def key_of(self, kid: str) -> SigningKey | None:
        """The key of this kid, where this process has it."""
        here = self.key_table.here
        return here.usable(kid) if self._to_read else here.get(kid)

    def key_for(self, run_id: str, kid: str) -> SigningKey:
        """The key that a run which began with `kid` goes on with; KeyUnavailable where it is not here."""
        self.refuse_copied(run_id)
        return self.key_table.key_for(run_id, self._run_no(run_id), kid)

    def authenticate(self, run_id: str) -> None:
        """From here on no commit of this run is given whose head is not what a key of ours vouched for."""
        self._authenticated.add(run_id)

    def check_head(self, run_id: str, n: int, head: str, cell: object) -> str:
        """The kid of the key that vouched for the head, or took over from it; NotAuthentic, or KeyUnavailable."""
        kid = cell[:8].hex() if isinstance(cell, bytes) else heads.kid_of(self._writer, self._run_no(run_id))
        if kid is not None and self.key_of(kid) is None:
            successor = self.key_table.history().taken_over(run_id, kid, n, head)
            if successor is not None:
                return successor
        if cell is None:
            heads.refuse_without_key(self._writer, run_id, self.key_of)
        return check_head(self.key_of, self.store_of(run_id), run_id, n, head, cell)

    def store_of(self, run_id: str) -> str:
        """The id of the store in which a run began."""
        origin = self.origins.of(self._run_no(run_id)) if self.origins.stores else None
        return self.store_id if origin is None else origin.store_id

    def refuse_copied(self, run_id: str) -> None:
        """KeyUnavailable for a run that began in a store which this one is a copy of."""
        if self.origins.stores:
            self.origins.refuse(run_id, self._run_no(run_id))

    def check_recorded(self, run_id: str) -> None:
        """NotAuthentic for a run that ended, where a key of ours vouched for something else, or should have."""
        low = self._run_no(run_id) << 24
        rows = self._reader().query("SELECT id, body, mac FROM commits WHERE id > ? AND id < ?", (low, low + (1 << 24)))
        for row_id, packed, mac in rows:
            kid = mac[:8].hex() if isinstance(mac, bytes) else ""
            if (mac is None and row_id >> 24 < self._strict_from) or (kid and self.key_of(kid) is None):
                continue  # of before, or of a key that is not here: `verify` tells of both
            body = self._reader().unpack(packed)
            self.check_head(run_id, row_id - low, sha256(body).hexdigest(), mac)

    def _checked(self, run_id: str, row_id: int, packed: bytes, mac: object) -> bytes:
        """The body of a commit, as it was written."""
        n = row_id & 0xFFFFFF
        body = self._reader().unpack(packed)
        if run_id in self._authenticated:
            self.check_head(run_id, n, sha256(body).hexdigest(), mac)
        return body

    def _note_encryption(self, name: str) -> None:
        """Something is about to be encrypted with the key of this name: should it get lost, the doctor knows."""
        if not self._writer.query("SELECT 1 FROM store WHERE key = ?", (ENCRYPTED_WITH + name,)):
            with self._writer.transaction() as db:
                db.execute("INSERT OR IGNORE INTO store VALUES (?, '')", (ENCRYPTED_WITH + name,))

    def key_values(self, agent_id: str, redact: Guard, decrypt: Guard) -> KeyValueService:
        """The agent's own key-value map in this store."""
        return key_values(self._writer, agent_id, redact, decrypt)

    def public_keys(self) -> dict[str, str]:
        return dict(self._reader().query("SELECT kid, public_key FROM keys ORDER BY kid"))

    def erasures(self) -> list[bytes]:
        """The canonical records of what was erased, in the order of their chain."""
        return [row[1] for row in self._reader().query("SELECT id, body FROM erasures ORDER BY id")]

    def _reader(self) -> Reads:
        """So that reading never waits for a writer."""
        return self._writer if self.in_memory else self._readers

    def unkept(self, run_id: str, traces: Collection[str]) -> list[str]:
        """Ids of steps that were sent, and whose record lies nowhere that anybody could read: see `StoreGone`.

        Those of commits that are gone with their file, and `traces`, which were not committed.
        """
        return unkept_steps(self._writer, run_id, traces)

    # -- runs and their journals -----------------------------------------------------------------------------------

    def cancel_request(self, run_id: str) -> str | None:
        rows = self._reader().query("SELECT cancel FROM runs WHERE run_id = ?", (run_id,))
        return rows[0][0] if rows else None

    def find_run(self, prefix: str) -> RunRow:
        """The run whose id starts with `prefix`, or the session of that id; `last` is the newest one."""
        if prefix == "last":
            rows = self._reader().query(f"SELECT {RUN_COLUMNS} FROM runs ORDER BY run_no DESC LIMIT 1")
        else:
            rows = self._reader().query(f"SELECT {RUN_COLUMNS} FROM runs WHERE {NAMED}", (prefix, prefix))
        if not rows:
            rows = self._reader().query(  # constant columns
                f"SELECT {RUN_COLUMNS} FROM runs WHERE run_id >= ? AND run_id < ? LIMIT 2",
                (prefix, prefix + "~"),
            )
        if not rows or not prefix:
            raise RunNotFound(f"no run {prefix!r} in {self.url}; `reenact ls` lists what is there")
        if len(rows) > 1:
            raise RunNotFound.several(prefix, [row[0] for row in rows])
        return RunRow(*rows[0])

    def find_session(self, agent_id: str, session: str) -> RunRow | None:
        """The newest run of the session to which this agent's host gave that id."""
        rows = self._reader().query(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE session = ? AND agent_id = ? ORDER BY run_no DESC LIMIT 1",
            (session, agent_id),
        )
        return RunRow(*rows[0]) if rows else None

    def open_session(self, agent_id: str, session: str) -> RunRow | None:
        """As `find_session`, for whoever goes on with it; NotAuthentic where that is not the run that has the id."""
        assert self.signing_key.kid  # by then those of before are vouched for
        row, run_id = self._session(agent_id, session)
        if run_id != (row and row.run_id):
            with self._writer.transaction():  # nobody has begun it, or gone on with it, between the one and the other
                row, run_id = self._session(agent_id, session)
            if run_id != (row and row.run_id):
                raise another_session(agent_id, session)
        return row

    def _session(self, agent_id: str, session: str) -> tuple[RunRow | None, str | None]:
        """(as its row has it, the run that a key of ours vouches for)"""
        found = self.find_session(agent_id, session)
        return found, self.idempotency.session_run(KeyRows(self._reader().query), agent_id, session)

    def runs(
        self, *, status: tuple[RunStatus, ...] | None = None, limit: int | None = None, before: str | None = None
    ) -> list[RunRow]:
        """The newest first, and of those the ones that began before a run."""
        return listed.listed(self._reader(), status, limit, before)

    def replays(self, run_id: str) -> list[RunRow]:
        """Runs that have this one as their parent, the newest first."""
        return listed.replays(self._reader(), run_id)

    def sealed(self, after: int, limit: int) -> list[tuple[int, RunRow]]:
        """(number of its seal, run), in order, behind a number."""
        return listed.sealed(self._reader(), after, limit)

    def unattended(self) -> frozenset[str]:
        """Ids of runs that count as running, and that nobody works on."""
        return leases.unattended(self._reader(), self.clock.now_ms())

    def broken_leases(self, run_id: str) -> list[BrokenLease]:
        """Those of the run that people took from their holders, in order."""
        return leases.broken_leases(self._reader(), run_id)

    def open_run(self, run_id: str) -> OpenRun | None:
        """Who holds a run; None for one that has ended, or is not there."""
        return leases.open_run(self._reader(), run_id)

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

    def bodies(self, run_id: str, *, after: int = 0, unchecked: bool = False) -> Iterator[bytes]:
        """The run's commit bodies in order, read in small batches, from the commit behind `after` on.

        `unchecked` for whoever knows the head that they lead to.
        """
        base = self._run_no(run_id) << 24
        reader, last = self._reader(), base + after
        while rows := reader.query(
            "SELECT id, body, mac FROM commits WHERE id > ? AND id < ? ORDER BY id LIMIT 64", (last, base + (1 << 24))
        ):
            for row_id, body, mac in rows:
                if unchecked:
                    yield reader.unpack(body)
                else:
                    yield self._checked(run_id, row_id, body, mac)
                last = row_id

    def body(self, run_id: str, n: int) -> bytes | None:
        row_id = self._run_no(run_id) << 24 | n
        rows = self._reader().query("SELECT id, body, mac FROM commits WHERE id = ?", (row_id,))
        return self._checked(run_id, *rows[0]) if rows else None

    def latest_frontier(self, run_id: str) -> tuple[int, bytes] | None:
        """(commit, frontier) of the run's last run checkpoint, as a key of ours vouched for it."""
        low = self._run_no(run_id) << 24
        rows = self._reader().query(
            "SELECT id, frontier, mac FROM run_checkpoints WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1",
            (low, low + (1 << 24) - 1),
        )
        if not rows:
            return None
        place, stored, mac = rows[0]
        frontier = checked_frontier(self.key_of, self.store_of(run_id), run_id, place - low, stored, mac, place)
        return None if frontier is None else (place - low, frontier)

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
                yield commitment.hex(), reader.envelope(body)
                last = row_id

    def archives(self, run_id: str) -> list[Archive]:
        """The bundles that values of a run were moved to."""
        return [Archive(*row) for row in self._reader().query(ARCHIVES, (run_id,))]

    def is_archived(self, run_id: str, commitment: str) -> bool:
        """Whether a value that is not here lies in a bundle."""
        run_no = self._run_no(run_id)
        wanted = (run_no, run_no, bytes.fromhex(commitment))
        return bool(self._reader().query(f"SELECT 1 {ARCHIVED} AND commitment = ?", wanted))

    def archived_values(self, run_id: str) -> list[str]:
        """Commitments of those that do."""
        run_no = self._run_no(run_id)
        rows = self._reader().query(f"SELECT commitment {ARCHIVED}", (run_no, run_no))
        return [commitment.hex() for (commitment,) in rows]

    def sealed_with_values(self) -> Iterator[str]:
        """Ids of sealed runs that have values here, the oldest first."""
        last = ""
        while rows := self._reader().query(SEALED_WITH_VALUES, (last,)):
            for (last,) in rows:
                yield last

    def find_content(self, run_id: str, content_key: bytes) -> tuple[str, int] | None:
        """(commitment, commit that stored it) of equal content in the run, for content large enough to be indexed."""
        rows = self._reader().query(
            f"SELECT c.commitment, c.payload_id >> {PAYLOAD_BITS} & 16777215 "
            "FROM runs r JOIN contents c ON c.run_no = r.run_no JOIN payloads p ON p.id = c.payload_id "
            "WHERE r.run_id = ? AND c.content_key = ?",
            (run_id, content_key),
        )
        return (rows[0][0].hex(), int(rows[0][1])) if rows else None

    def today(self, clock: Clock) -> str:
        """Whoever writes to a file does so on one machine."""
        return clock.timestamp()[:10]

    def spent(self, day: str, agent_id: str) -> dict[str, int]:
        """Picodollars that an agent spent on a day, by model; "" stands for what no model did.

        NotAuthentic where a row was changed, or taken out; of a store that is only read, as it is found.
        """
        whose = (day, agent_id)
        rows = self._reader().query(money.SPENT, whose)
        if not self._to_read:
            assert self.signing_key.kid  # by then what is of before is vouched for
            try:
                self.idempotency.check_spent(KeyRows(self._reader().query), *whose, rows)
            except NotAuthentic:  # or others have spent between the two
                with self._writer.transaction() as db:
                    rows = db.execute(money.SPENT, whose).fetchall()
                    self.idempotency.check_spent(KeyRows(db.execute), *whose, rows)
        return {model: money.amount(exact) for model, exact in rows}

    def set_apart(self, day: str, agent_id: str, besides: Collection[str] = ()) -> dict[str, int]:
        """Picodollars, by model, that an agent's calls in flight, but for the traces `besides`, may still cost.

        Only of runs with a limit that other runs count against.
        """
        return money.live(self._reader().query(money.LIVE, (day, agent_id, self.clock.now_ms())), besides)

    def key_record(self, server: str, tool: str, key: str) -> KeyRecord | None:
        """NotAuthentic where the rows cannot tell: one was changed, or taken out."""
        assert self.signing_key.kid  # by then those of before are vouched for
        return self.idempotency.record(KeyRows(self._reader().query), (server, tool, key))

    def late_effects(self, run_id: str, trace_id: str) -> list[LateEffect]:
        rows = self._reader().query(
            "SELECT trace_id, body FROM late_effects WHERE run_no = ? AND trace_id = ? ORDER BY id",
            (self._run_no(run_id), trace_id),
        )
        return [LateEffect(trace_id=row[0], body=row[1]) for row in rows]

    def evidence(self) -> SqliteEvidence:
        """What lies in it, in one snapshot of its own."""
        if self.path != ":memory:":
            return open_evidence(self.path)
        with self._writer.lock:
            return copy_of(self._writer.db, self.key_of)

    def close(self) -> None:
        self._readers.close()
        self._writer.close()
