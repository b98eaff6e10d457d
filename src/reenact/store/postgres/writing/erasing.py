"""Values taken out of a database: their rows, what points to them, and the record of it, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

from reenact.errors import ChecksumMismatch, RunNotFound
from reenact.journal.chain import encode
from reenact.store.base import PAYLOAD_BITS, Archiving, Erasing
from reenact.store.beside.idempotency import IdempotencyKeys
from reenact.store.compression import Codec
from reenact.store.deltas import base_of, put_together
from reenact.store.erasures import erasure_record
from reenact.store.keys.notes import Note
from reenact.store.postgres.opened.database import Asks, Database
from reenact.store.postgres.signed import key_rows, notes
from reenact.values.clock import Clock

Sign = Callable[[str, str], Note]
"""(schema, digest) → the note about it"""
Place = tuple[int, int]
"""(n, k)"""
MASK = (1 << PAYLOAD_BITS) - 1


def erase(database: Database, erasing: Erasing, clock: Clock, sign: Sign, keys: IdempotencyKeys) -> int:
    """How many envelopes are gone, each with its record and what `sign` makes of (schema, digest), at once."""
    before: list[int] = []

    def act(db: Asks) -> int:
        db.ask(key_rows.LOCK)
        run_no = locked_run(db, erasing.run_id)
        rows = payload_rows(db, run_no, erasing.commitments)
        stand_alone(db, run_no, {place for place, _ in rows})
        chain = RecordChain(db, run_no, erasing, clock, sign)
        for place, commitment in rows:
            take_out(db, run_no, place, commitment)
            chain.add(commitment)
        lying = [
            (n, k, commitment, bundle)
            for n, k, commitment, bundle in db.ask(
                "SELECT n, k, commitment, bundle FROM :schema.archived WHERE run_no = %s ORDER BY n, k", (run_no,)
            )
            if commitment.hex() in erasing.commitments
        ]
        for n, k, commitment, bundle in lying:  # whoever keeps the bundle destroys what is there
            db.ask("DELETE FROM :schema.archived WHERE run_no = %s AND n = %s AND k = %s", (run_no, n, k))
            take_out(db, run_no, (n, k), commitment)
            chain.add(commitment, bundle=bundle)
        chain.end()
        forget(db, run_no, erasing, keys)
        before.append(len(rows) + len(lying))
        return max(before)  # what was done by a try of which nobody knew what became of it counts

    return database.transact(act)


def forget(db: Asks, run_no: int, erasing: Erasing, keys: IdempotencyKeys) -> None:
    """What else holds a value, or could be used to guess one."""
    if db.ask("SELECT 1 FROM :schema.erasures WHERE run_no = %s LIMIT 1", (run_no,)):
        traces = (run_no, sorted(erasing.traces))  # also what came in after an earlier erasure
        db.ask(
            "UPDATE :schema.late_effects SET trace_id = '', body = '' WHERE run_no = %s AND trace_id = ANY(%s)", traces
        )
        db.ask("DELETE FROM :schema.ballots WHERE run_no = %s AND trace_id = ANY(%s)", traces)
    if erasing.whole:
        db.ask("UPDATE :schema.runs SET cancel = NULL WHERE run_no = %s", (run_no,))
        # What recovery starts from holds the run's salt, by which its arguments could be guessed from its keys.
        db.ask("DELETE FROM :schema.run_checkpoints WHERE run_no = %s", (run_no,))
    for *place, trace_id in db.ask(
        "SELECT server, tool, key, trace_id FROM :schema.idempotency WHERE run_no = %s", (run_no,)
    ):
        if erasing.whole or trace_id in erasing.traces:
            server, tool, key = place
            keys.forget_request(key_rows.KeyRows(db), (server, tool, key))


class RecordChain:
    """The store's chain of erasures, held from the first record that is added."""

    def __init__(self, db: Asks, run_no: int, erasing: Erasing | Archiving, clock: Clock, sign: Sign) -> None:
        self._db = db
        self._run_no = run_no
        self._erasing = erasing
        self._clock = clock
        self._sign = sign
        self._number: int | None = None
        self._after: bytes | None = None

    def add(self, commitment: bytes, *, bundle: str | None = None) -> None:
        """The next record, and its signature."""
        if self._number is None:
            sql = "SELECT value FROM :schema.counters WHERE name = 'erasures' FOR UPDATE"
            ((self._number,),) = self._db.ask(sql)
            last = self._db.ask("SELECT body FROM :schema.erasures WHERE id = %s", (self._number,))
            self._after = last[0][0] if last else None
        ts = self._clock.timestamp()
        record = erasure_record(self._erasing, commitment.hex(), ts, after=self._after, bundle=bundle)
        assert self._number is not None
        self._number, self._after = self._number + 1, encode(record)
        self._db.ask("INSERT INTO :schema.erasures VALUES (%s, %s, %s)", (self._number, self._run_no, self._after))
        notes.write(self._db, self._sign(record.schema, str(record.digest)))

    def end(self) -> None:
        if self._number is not None:
            self._db.ask("UPDATE :schema.counters SET value = %s WHERE name = 'erasures'", (self._number,))


def locked_run(db: Asks, run_id: str) -> int:
    rows = db.ask("SELECT run_no FROM :schema.runs WHERE run_id = %s FOR NO KEY UPDATE", (run_id,))
    if not rows:
        raise RunNotFound(f"no run {run_id} in this store")
    return int(rows[0][0])


def payload_rows(db: Asks, run_no: int, chosen: frozenset[str]) -> list[tuple[Place, bytes]]:
    rows = db.ask("SELECT n, k, commitment FROM :schema.payloads WHERE run_no = %s ORDER BY n, k", (run_no,))
    return [((n, k), commitment) for n, k, commitment in rows if commitment.hex() in chosen]


def take_out(db: Asks, run_no: int, place: Place, commitment: bytes) -> None:
    for table in ("payloads", "contents"):
        db.ask(f"DELETE FROM :schema.{table} WHERE run_no = %s AND n = %s AND k = %s", (run_no, *place))
    db.ask("DELETE FROM :schema.shared_payloads WHERE run_no = %s AND commitment = %s", (run_no, commitment))


def stand_alone(db: Asks, run_no: int, going: set[Place]) -> None:
    """Envelopes that stay but build on one that goes are stored whole first."""
    if not going:
        return
    codec = Codec()
    rows = db.ask("SELECT n, k, commitment, body FROM :schema.payloads WHERE run_no = %s ORDER BY n, k", (run_no,))
    stored = {n << PAYLOAD_BITS | k: body for n, k, _, body in rows}
    whole = [
        (n, k, commitment, codec.pack_envelope(put_together(codec, body, stored.get)))
        for n, k, commitment, body in rows
        if (base := base_of(body)) is not None and (base >> PAYLOAD_BITS, base & MASK) in going and (n, k) not in going
    ]
    for n, k, commitment, body in whole:
        db.ask("DELETE FROM :schema.payloads WHERE run_no = %s AND n = %s AND k = %s", (run_no, n, k))
        db.ask("INSERT INTO :schema.payloads VALUES (%s, %s, %s, %s, %s)", (run_no, n, k, commitment, body))


# -- archiving ---------------------------------------------------------------------------------------------------------


def archive(database: Database, archiving: Archiving, clock: Clock, sign: Sign) -> int:
    """How many envelopes are gone to a bundle, each with its record and what `sign` makes of it, at once."""
    before: list[int] = []

    def act(db: Asks) -> int:
        run_no = locked_run(db, archiving.run_id)
        rows = payload_rows(db, run_no, archiving.commitments)
        stand_alone(db, run_no, {place for place, _ in rows})
        db.ask(
            "INSERT INTO :schema.archives VALUES (%s, %s, %s) ON CONFLICT (run_no, bundle) "
            "DO UPDATE SET place = excluded.place",
            (run_no, archiving.bundle, archiving.place),
        )
        chain = RecordChain(db, run_no, archiving, clock, sign)
        for (n, k), commitment in rows:
            db.ask("DELETE FROM :schema.payloads WHERE run_no = %s AND n = %s AND k = %s", (run_no, n, k))
            values = (run_no, n, k, commitment, archiving.bundle)
            db.ask("INSERT INTO :schema.archived VALUES (%s, %s, %s, %s, %s)", values)
            chain.add(commitment, bundle=archiving.bundle)
        chain.end()
        before.append(len(rows))
        return max(before)

    return database.transact(act)


def restore(database: Database, run_id: str, envelopes: Iterable[tuple[str, bytes]]) -> int:
    """How many are back where they lay; ChecksumMismatch, and nothing done, where one is not that of its commitment."""
    given = list(envelopes)
    before: list[int] = []

    def act(db: Asks) -> int:
        run_no, codec, count = locked_run(db, run_id), Codec(), 0
        for commitment, envelope in given:
            key = bytes.fromhex(commitment)
            if sha256(envelope).digest() != key:
                raise ChecksumMismatch(f"payload {commitment} is not the one that was archived; nothing was restored")
            sql = "DELETE FROM :schema.archived WHERE run_no = %s AND commitment = %s RETURNING n, k"
            for n, k in db.ask(sql, (run_no, key)):
                values = (run_no, n, k, key, codec.pack_envelope(envelope))
                db.ask("INSERT INTO :schema.payloads VALUES (%s, %s, %s, %s, %s)", values, size=len(envelope))
                count += 1
        before.append(count)
        return max(before)

    return database.transact(act)
