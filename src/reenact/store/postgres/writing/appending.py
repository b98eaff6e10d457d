"""Commits: one round trip where nothing has to be looked up, a transaction that takes its locks first where it has.

A commit may be sent twice, when nobody knows what became of it: the database tells by run, number and digest whether it
is there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from msgspec import UNSET

from reenact.contracts.records import Seal
from reenact.errors import ConcurrentExecution, LockAcquireFailed, ReenactError, StoreVersionError, UsageError
from reenact.journal import chain
from reenact.store.base import LEASE_MS, Appended, Lease, NewRun, Unit
from reenact.store.beside.idempotency import IdempotencyKeys
from reenact.store.keys.notes import Note, sign_at_once
from reenact.store.postgres.opened.database import Asks, Database
from reenact.store.postgres.signed import key_records, key_rows, notes
from reenact.store.postgres.writing import money
from reenact.store.postgres.writing.packing import Batch, Packing
from reenact.store.signing import KeyOf, SignFirst, SigningKey, missing_key
from reenact.values.clock import Clock
from reenact.values.digest import ZERO_DIGEST

APPEND = "SELECT outcome, run_no, cancel, expires FROM :schema.append_1(%s::jsonb, %b::bytea[])"
LARGE = 8 * 1024 * 1024
"""From here on the values go first, before the run is locked."""
PART = 4 * 1024 * 1024
PAYLOADS = (
    "INSERT INTO :schema.payloads SELECT %s::bigint, %s::integer, %s::integer + i::integer - 1, c, b "
    "FROM unnest(%b::bytea[], %b::bytea[]) WITH ORDINALITY AS t (c, b, i)"
)
ALREADY = (
    "SELECT c.digest, r.run_no, r.cancel, r.expires_ms FROM :schema.runs r "
    "JOIN :schema.commits c ON c.run_no = r.run_no WHERE r.run_id = %s AND c.n = %s"
)
TAKEN = "SELECT run_id FROM :schema.runs WHERE session = %s AND agent_id = %s ORDER BY run_no DESC LIMIT 1"
LOCK_RUN = "SELECT run_no FROM :schema.runs WHERE run_id = %s FOR NO KEY UPDATE"
BEGIN_SEAL = "SELECT number, last, erasures FROM :schema.begin_seal_1()"
SEAL = "SELECT :schema.seal_1(%s::bigint, %s::bigint, %s)"

Work = tuple[Unit, Lease | None, str]
"""A unit, the lease that it is written under, and whose that is."""


class Written(NamedTuple):
    """What the database says of a unit."""

    outcome: str
    run_no: int
    cancel: str | None
    expires_ms: int | None


class Appender:
    """Writes units. What is refused raises, or stands in the place of its result."""

    def __init__(
        self, database: Database, clock: Clock, store_id: str, own_key: Callable[[], SigningKey], key_of: KeyOf
    ) -> None:
        self._database = database
        self._clock = clock
        self._store_id = store_id
        self._own_key = own_key
        self._key_of = key_of
        self._packing = Packing(store_id)
        self._packs = threading.RLock()
        """Whoever packs for this store: what it is packed with is one thread's at a time."""
        self._idempotency = IdempotencyKeys(store_id, own_key, key_of)

    def append(self, units: list[Work]) -> list[Appended | Exception]:
        """In their order; a unit that is refused is taken out alone. An error of the database is everybody's."""
        results: list[Appended | Exception] = []
        together: list[Work] = []
        with self._packs:
            for work in units:
                if needs_locks(work[0]):
                    results += self._append_together(together)
                    together = []
                    results.append(self._append_alone(*work))
                else:
                    together.append(work)
            return results + self._append_together(together)

    # -- in one round trip -----------------------------------------------------------------------------------------

    def _append_together(self, units: list[Work], *, tries: int = 3) -> list[Appended | Exception]:
        if not units:
            return []
        batch, leases = Batch(), []
        results: list[Appended | Exception | None] = [None] * len(units)
        sent = []
        for at, (unit, held, owner) in enumerate(units):
            try:
                lease = self._lease(unit, held, owner)
                key = self._key(lease)
                self._packing.add(batch, unit, lease, key, unit.body, self._signed(unit, key))
            except ReenactError as refusal:
                results[at] = refusal
                continue
            sent.append(at)
            leases.append(lease)
        if sent:
            rows = self._database.call(APPEND, batch.parameters(), again=batch.parameters(again=True), size=batch.size)
            for at, lease, row in zip(sent, leases, rows, strict=True):
                written = Written(*row)
                if written.outcome == "base" and tries:
                    self._packing.forget(units[at][0].run_id)
                    results[at] = self._append_together([units[at]], tries=tries - 1)[0]
                else:
                    results[at] = told(units[at][0], lease, written, batch.units[sent.index(at)], batch)
        return [result for result in results if result is not None]

    # -- under locks -----------------------------------------------------------------------------------------------

    def _append_alone(self, unit: Unit, held: Lease | None, owner: str) -> Appended | Exception:
        lease = self._lease(unit, held, owner)
        sent: dict[bytes, tuple[bytes, Seal | None]] = {}
        for tries in count(1):
            try:
                return self._database.transact(
                    lambda db: self._append_within(db, unit, lease, sent), size=size_of(unit)
                )
            except SignFirst as first:
                first.sign(tries)
            except ReenactError as refusal:
                return refusal
        raise AssertionError

    def _append_within(
        self, db: Asks, unit: Unit, lease: Lease, sent: dict[bytes, tuple[bytes, Seal | None]]
    ) -> Appended:
        """`sent` is what was sent before, by digest, when nobody knows what became of it."""
        for digest, *row in db.ask(ALREADY, (unit.run_id, unit.n)) if sent else ():
            if digest in sent:
                return appended(lease, Written("again", *row), digest, sent[digest][1])
        key = self._key(lease)
        if unit.reservations or unit.completions or session_of(unit) is not None:
            db.ask(key_rows.LOCK)
        for whose in sorted({(earmark.day, earmark.agent_id) for earmark in unit.earmarks}):
            money.lock(db, *whose)
        run_no = self._numbered(db, unit) or self._lock_run(db, unit)
        for reservation in unit.reservations:
            self._idempotency.reserve(key_rows.KeyRows(db), reservation, run_no)
        for done in unit.completions:
            self._idempotency.complete(key_rows.KeyRows(db), done)
        appended_ = self._write(db, unit, lease, key, run_no, sent)
        for earmark in unit.earmarks:  # after what this commit itself spends
            money.set_apart(db, earmark, run_no)
        return appended_

    def _numbered(self, db: Asks, unit: Unit) -> int | None:
        """The number of a run that begins, and its session's id for it."""
        if unit.new_run is None or unit.n != 1:
            return None
        ((run_no,),) = db.ask("SELECT nextval(':schema.run_numbers')")
        if unit.new_run.session is not None:
            self._hold_session(db, unit.new_run, unit.new_run.session, run_no, unit.run_id)
        return int(run_no)

    def _lock_run(self, db: Asks, unit: Unit) -> int:
        rows = db.ask(LOCK_RUN if size_of(unit) < LARGE else LOCK_RUN.partition(" FOR ")[0], (unit.run_id,))
        if not rows:
            raise fenced(unit.run_id)
        return int(rows[0][0])

    def _write(
        self, db: Asks, unit: Unit, lease: Lease, key: SigningKey, run_no: int,
        sent: dict[bytes, tuple[bytes, Seal | None]],
    ) -> Appended:  # fmt: skip
        body, seal, number, erasures = unit.body, unit.seal, 0, 0
        if seal is not None:
            ((number, last, erasures),) = db.ask(BEGIN_SEAL)
            if seal.seal_digest is UNSET:
                seal = chain.seal_behind(body, seal, ZERO_DIGEST if last is None else last)
                body += chain.seal_line(seal)
        batch = Batch()
        digest = self._packing.add(batch, unit, lease, key, body, self._signed(unit, key))
        sent[digest] = (body, seal)
        said = batch.units[0]
        if "run" in said:
            said["run"]["run_no"] = run_no
        if batch.size >= LARGE and "payloads" in said:
            self._write_payloads(db, batch, run_no, unit.n)
        written = Written(*db.ask(APPEND, batch.parameters(), size=batch.size)[0])
        if written.outcome == "base":
            self._packing.forget(unit.run_id)
            raise LockAcquireFailed(f"run {unit.run_id}: values of it were erased meanwhile; try again")
        if written.outcome not in ("done", "again"):
            raise refusal_of(unit, written)
        if seal is not None:
            self._end(db, key, (number + 1, run_no, str(seal.seal_digest)), seal)
            if erasures:
                key_records.sign_erasures(db, key, self._store_id, seal)
        return appended(lease, written, digest, seal)

    def _write_payloads(self, db: Asks, batch: Batch, run_no: int, n: int) -> None:
        """Before the run is locked, in parts; what is refused afterwards takes them with it."""
        first, count = batch.units[0].pop("payloads")
        at = 0
        while at < count:
            until, size = at, 0
            while until < count and (until == at or size < PART):
                size += len(batch.blobs[first + 2 * until])
                until += 1
            part = batch.blobs[first + 2 * at - 1 : first + 2 * until - 1]
            db.ask(PAYLOADS, (run_no, n, at, part[::2], part[1::2]), size=size)
            at = until
        for place in range(first - 1, first + 2 * count - 1):
            batch.blobs[place] = b""

    def _end(self, db: Asks, key: SigningKey, row: tuple[int, int, str], seal: Seal) -> None:
        """What goes with a seal: nobody votes on the run any more, and nothing is set apart for it."""
        db.ask(SEAL, row)
        notes.write(db, sign_at_once(key, str(seal.schema), self._store_id, str(seal.seal_digest)))

    def _hold_session(self, db: Asks, run: NewRun, session: str, run_no: int, run_id: str) -> None:
        """An id of a session is an agent's once, but for the run that continues the one that has it."""
        taken = db.ask(TAKEN, (session, run.agent_id))
        if taken and taken[0][0] != run.parent_run:
            raise LockAcquireFailed(f"another process has just begun session {session!r} of agent {run.agent_id}")
        rows = key_rows.KeyRows(db)
        self._idempotency.hold_session(rows, run.agent_id, session, run_no, run_id, run.parent_run)

    # -- what both are made of -------------------------------------------------------------------------------------

    def _lease(self, unit: Unit, held: Lease | None, owner: str) -> Lease:
        """The deadline is taken before anything is sent."""
        if held is not None:
            return held
        assert unit.new_run is not None
        until = self._clock.monotonic() + LEASE_MS / 1000
        return Lease(unit.run_id, owner, 1, 0, kid=self._own_key().kid, until=until)

    def _key(self, lease: Lease) -> SigningKey:
        key = self._key_of(lease.kid) if lease.kid else self._own_key()
        if key is None:
            raise missing_key(lease.run_id, lease.kid)
        return key

    def _signed(self, unit: Unit, key: SigningKey) -> list[Note]:
        for tries in count(1):
            try:
                return [sign_at_once(key, schema, self._store_id, digest) for schema, digest in unit.signs]
            except SignFirst as first:
                if self._database.is_in_transaction:
                    raise
                first.sign(tries)
        raise AssertionError


def needs_locks(unit: Unit) -> bool:
    """Whether something has to be read before it can be written, or it is so large that nobody should wait for it."""
    looks_up = unit.reservations or unit.completions or unit.earmarks or unit.seal is not None
    return bool(looks_up) or session_of(unit) is not None or size_of(unit) >= LARGE


def session_of(unit: Unit) -> str | None:
    return None if unit.new_run is None else unit.new_run.session


def size_of(unit: Unit) -> int:
    return len(unit.body) + sum(len(payload.envelope) for payload in unit.payloads)


def told(unit: Unit, lease: Lease, written: Written, said: dict[str, object], batch: Batch) -> Appended | Exception:
    """What became of a unit that was sent with others."""
    if written.outcome not in ("done", "again"):
        return refusal_of(unit, written)
    place = said["digest"]
    assert isinstance(place, int)
    return appended(lease, written, batch.blobs[place - 1], None)


def appended(lease: Lease, written: Written, digest: bytes, seal: Seal | None) -> Appended:
    if written.expires_ms is not None and lease.expires_ms == 0:
        lease = replace(lease, expires_ms=written.expires_ms)
    if written.cancel is not None:
        lease = replace(lease, cancel=written.cancel)
    return Appended(lease, digest.hex(), seal)


def refusal_of(unit: Unit, written: Written) -> ReenactError:
    if written.outcome == "exists":
        return UsageError(f"there is a run {unit.run_id} in this store already; leave the id out to get a new one")
    if written.outcome == "old":
        return StoreVersionError("this store is written to by newer versions of reenact alone: upgrade reenact")
    return fenced(unit.run_id)


def fenced(run_id: str) -> ConcurrentExecution:
    return ConcurrentExecution(
        f"run {run_id}: another executor took over; this one wrote nothing. See `reenact show {run_id}`"
    )
