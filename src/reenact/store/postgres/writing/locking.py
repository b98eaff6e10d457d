"""Units that look something up before they are written: one transaction for all that are ready, its locks first.

Locks are taken in the order `idempotency`, `limits`, `runs`, `erasures`, `late_effects`, `seals`, before anything is
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import UNSET

from reenact.contracts.records import Seal
from reenact.errors import LockAcquireFailed, ReenactError, StoreError
from reenact.journal import chain
from reenact.store.base import Appended, Lease, NewRun, Unit
from reenact.store.beside.idempotency import IdempotencyKeys
from reenact.store.keys.notes import sign_at_once
from reenact.store.postgres.opened.database import Asks
from reenact.store.postgres.signed import key_records, key_rows
from reenact.store.postgres.writing import money
from reenact.store.postgres.writing.groups import LARGE, session_of, size_of
from reenact.store.postgres.writing.outcomes import APPEND, Written, appended, fenced, refusal_of
from reenact.store.postgres.writing.packing import Batch, Packing
from reenact.store.postgres.writing.signer import Signer
from reenact.values.digest import ZERO_DIGEST

PART = 4 * 1024 * 1024
PAYLOADS = (
    "INSERT INTO :schema.payloads SELECT %s::bigint, %s::integer, %s::integer + i::integer - 1, c, b "
    "FROM unnest(%b::bytea[], %b::bytea[]) WITH ORDINALITY AS t (c, b, i)"
)
ALREADY = (
    "SELECT t.i, c.digest, r.run_no, r.cancel, r.expires_ms FROM unnest(%s::text[], %s::integer[]) "
    "WITH ORDINALITY AS t (run_id, n, i) JOIN :schema.runs r ON r.run_id = t.run_id "
    "JOIN :schema.commits c ON c.run_no = r.run_no AND c.n = t.n"
)
TAKEN = "SELECT run_id FROM :schema.runs WHERE session = %s AND agent_id = %s ORDER BY run_no DESC LIMIT 1"
LOCK_RUNS = "SELECT run_id, run_no FROM :schema.runs WHERE run_id = ANY(%s) ORDER BY run_no FOR NO KEY UPDATE"
DRAW = "SELECT nextval(':schema.run_numbers') FROM generate_series(1, %s)"
BEGIN_SEAL = "SELECT number, last, erasures FROM :schema.begin_seal_1()"

Sessions = dict[tuple[str, str], str]
"""Agent and id of a session → the run that has begun it in this group."""


@dataclass(eq=False)
class Sending:
    """A unit on its way."""

    unit: Unit
    lease: Lease
    sent: dict[bytes, Seal | None] = field(default_factory=dict)
    """By digest what was sent before, when nobody knows what became of it."""
    run_no: int = 0

    @property
    def begins(self) -> bool:
        return self.unit.new_run is not None and self.unit.n == 1


class Refused(Exception):
    """Raised inside the transaction, which is rolled back: the others are begun again without this one."""

    def __init__(self, one: Sending, why: ReenactError) -> None:
        super().__init__(str(why))
        self.one = one
        self.why = why


class Locking:
    """What is done in such a transaction."""

    def __init__(self, packing: Packing, signer: Signer, idempotency: IdempotencyKeys) -> None:
        self._packing = packing
        self._signer = signer
        self._idempotency = idempotency

    def append(self, db: Asks, group: Sequence[Sending]) -> list[Appended]:
        """All of them, or Refused for the first that cannot be."""
        self._lock(db, group)
        there = already(db, group)
        if len(there) == len(group):  # a try of which nobody knew has written them
            return [there[one] for one in group]
        sessions: Sessions = {}
        for one in group:
            try:
                self._look_up(db, one, sessions)
            except StoreError:  # the database's, and everybody's
                raise
            except ReenactError as error:
                raise Refused(one, error) from error
        done = self._write(db, group)
        for one in group:
            for earmark in one.unit.earmarks:  # after what this commit itself spends
                try:
                    money.set_apart(db, earmark, one.run_no)
                except StoreError:
                    raise
                except ReenactError as error:
                    raise Refused(one, error) from error
        return done

    def _lock(self, db: Asks, group: Sequence[Sending]) -> None:
        if any(needs_keys(one.unit) for one in group):
            db.ask(key_rows.LOCK)
        marks = [earmark for one in group for earmark in one.unit.earmarks]
        for whose in sorted({(earmark.day, earmark.agent_id) for earmark in marks}):
            money.lock(db, *whose)
        begun = [one.unit.run_id for one in group if not one.begins]
        is_again = any(one.sent for one in group)
        is_large = any(size_of(one.unit) >= LARGE for one in group) and not is_again
        sql = LOCK_RUNS.partition(" FOR ")[0] if is_large else LOCK_RUNS
        numbers = dict(db.ask(sql, (begun,))) if begun else {}
        drawn = [number for (number,) in db.ask(DRAW, (len(group) - len(begun),))] if len(begun) < len(group) else []
        for one in group:
            number = drawn.pop(0) if one.begins else numbers.get(one.unit.run_id)
            if number is None:
                raise Refused(one, fenced(one.unit.run_id))
            one.run_no = int(number)
        if is_again and any(one.unit.seal is not None for one in group):
            db.ask(BEGIN_SEAL)

    def _look_up(self, db: Asks, one: Sending, sessions: Sessions) -> None:
        """What refuses a unit before anything of it is written, and what stands beside the journal."""
        unit, rows = one.unit, key_rows.KeyRows(db)
        if one.begins and unit.new_run is not None and unit.new_run.session is not None:
            self._hold_session(db, unit.new_run, unit.new_run.session, one, sessions)
        for reservation in unit.reservations:
            self._idempotency.reserve(rows, reservation, one.run_no)
        for done in unit.completions:
            self._idempotency.complete(rows, done)

    def _hold_session(self, db: Asks, run: NewRun, session: str, one: Sending, sessions: Sessions) -> None:
        """An id of a session is an agent's once, but for the run that continues the one that has it."""
        rows = db.ask(TAKEN, (session, run.agent_id))
        taken = sessions.get((run.agent_id, session), rows[0][0] if rows else None)
        if taken not in (None, run.parent_run):
            raise LockAcquireFailed(f"another process has just begun session {session!r} of agent {run.agent_id}")
        sessions[run.agent_id, session] = one.unit.run_id
        keys = key_rows.KeyRows(db)
        self._idempotency.hold_session(keys, run.agent_id, session, one.run_no, one.unit.run_id, run.parent_run)

    # -- the rows ----------------------------------------------------------------------------------------------------

    def _write(self, db: Asks, group: Sequence[Sending]) -> list[Appended]:
        batch, seals, digests = Batch(), list[Seal | None](), list[bytes]()
        number, last, erasures = 0, None, 0
        if any(one.unit.seal is not None for one in group):
            ((number, last, erasures),) = db.ask(BEGIN_SEAL)
        for one in group:
            try:
                digest, seal = self._pack(batch, one, number + 1, ZERO_DIGEST if last is None else last)
            except ReenactError as error:
                raise Refused(one, error) from error
            if seal is not None:
                number, last = number + 1, str(seal.seal_digest)
            one.sent[digest] = seal
            digests.append(digest)
            seals.append(seal)
        if batch.size >= LARGE and "payloads" in batch.units[0]:
            write_payloads(db, batch, group[0].run_no, group[0].unit.n)
        done = []
        for one, digest, seal, row in zip(
            group, digests, seals, db.ask(APPEND, batch.parameters(), size=batch.size), strict=True
        ):
            done.append(self._told(db, one, Written(*row), digest, seal))
        first = next((at for at, seal in enumerate(seals) if seal is not None), None)
        if erasures and first is not None:
            seal = seals[first]
            assert seal is not None
            key_records.sign_erasures(db, self._signer.key(group[first].lease), self._signer.store_id, seal)
        return done

    def _pack(self, batch: Batch, one: Sending, number: int, last: str) -> tuple[bytes, Seal | None]:
        """Its digest, and its seal as it stands in the place of this number."""
        unit, key = one.unit, self._signer.key(one.lease)
        body, seal, notes = unit.body, unit.seal, self._signer.notes(unit, key)
        if seal is not None:
            if seal.seal_digest is UNSET:
                seal = chain.seal_behind(body, seal, last)
                body += chain.seal_line(seal)
            notes.append(sign_at_once(key, str(seal.schema), self._signer.store_id, str(seal.seal_digest)))
        digest = self._packing.add(batch, unit, one.lease, key, body, notes)
        said = batch.units[-1]
        if seal is not None:
            said["seal"] = [number, str(seal.seal_digest)]
        if "run" in said:
            said["run"]["run_no"] = one.run_no
        return digest, seal

    def _told(self, db: Asks, one: Sending, written: Written, digest: bytes, seal: Seal | None) -> Appended:
        if written.outcome == "base":
            self._packing.forget(one.unit.run_id)
            why = LockAcquireFailed(f"run {one.unit.run_id}: values of it were erased meanwhile; try again")
            raise Refused(one, why)
        if written.outcome != "done":
            there = already(db, [one])  # of a try that was still on its way when its locks were looked for
            if one in there:
                return there[one]
            raise Refused(one, refusal_of(one.unit, written))
        return appended(one.lease, written, digest, seal)


def needs_keys(unit: Unit) -> bool:
    return bool(unit.reservations or unit.completions) or session_of(unit) is not None


def already(db: Asks, group: Sequence[Sending]) -> dict[Sending, Appended]:
    """Those that a try has written of which nobody knew what became of it: all of a group, or none."""
    sent = [one for one in group if one.sent]
    if not sent:
        return {}
    rows = db.ask(ALREADY, ([one.unit.run_id for one in sent], [one.unit.n for one in sent]))
    found = {}
    for at, digest, run_no, cancel, expires_ms in rows:
        one = sent[at - 1]
        if digest in one.sent:
            written = Written("again", run_no, cancel, expires_ms)
            found[one] = appended(one.lease, written, digest, one.sent[digest])
    return found


def write_payloads(db: Asks, batch: Batch, run_no: int, n: int) -> None:
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
