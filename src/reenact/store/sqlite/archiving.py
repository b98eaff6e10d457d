"""Values of sealed runs that lie in a bundle: taken out of a store file with a record, and put back where they lay."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

from reenact.errors import ChecksumMismatch
from reenact.store.base import PAYLOAD_BITS, Archive, Archiving
from reenact.store.keys.notes import Note
from reenact.store.sqlite.connection import Connection, Reads
from reenact.store.sqlite.erasing import add_record, number_of, payload_rows, stand_alone
from reenact.values.clock import Clock

IN_RUN = "payload_id >= ? AND payload_id < ?"
ARCHIVES = (
    "SELECT a.bundle, a.place, (SELECT count(*) FROM archived v WHERE v.payload_id >= a.run_no << 36 "
    "AND v.payload_id < (a.run_no + 1) << 36 AND v.bundle = a.bundle) "
    "FROM archives a JOIN runs r ON r.run_no = a.run_no WHERE r.run_id = ? ORDER BY a.bundle"
)
LYING = (
    "SELECT v.bundle FROM runs r JOIN archived v ON v.payload_id >= r.run_no << 36 "
    "AND v.payload_id < (r.run_no + 1) << 36 WHERE r.run_id = ? AND v.commitment = ?"
)
ENDED_WITH_VALUES = (
    "SELECT r.run_id FROM seals s JOIN runs r ON r.run_no = s.run_no "
    "WHERE EXISTS (SELECT 1 FROM payloads p WHERE p.id >= r.run_no << 36 AND p.id < (r.run_no + 1) << 36) "
    "AND r.run_id > ? ORDER BY r.run_id LIMIT 1000"
)


def archive(writer: Connection, archiving: Archiving, clock: Clock, sign: Callable[[str, str], Note]) -> int:
    """How many envelopes are gone, each with its record and what `sign` makes of (schema, digest), at once."""
    with writer.transaction() as db:
        run_no = number_of(db, archiving.run_id)
        rows = payload_rows(db, run_no, archiving.commitments)
        stand_alone(db, writer.codec, writer.envelope, run_no, {row_id for row_id, _ in rows})
        place = (run_no, archiving.bundle, archiving.place)
        db.execute("INSERT OR REPLACE INTO archives VALUES (?, ?, ?)", place)
        for row_id, commitment in rows:
            db.execute("DELETE FROM payloads WHERE id = ?", (row_id,))
            db.execute("INSERT INTO archived VALUES (?, ?, ?)", (row_id, commitment, archiving.bundle))
            add_record(db, run_no, archiving, commitment, clock, sign, bundle=archiving.bundle)
    return len(rows)


def restore(writer: Connection, run_id: str, envelopes: Iterable[tuple[str, bytes]]) -> int:
    """How many are back where they lay; ChecksumMismatch, and nothing done, where one is not that of its commitment."""
    with writer.transaction() as db:
        low = number_of(db, run_id) << 24 + PAYLOAD_BITS
        query = f"SELECT payload_id FROM archived WHERE {IN_RUN} AND commitment = ?"
        count = 0
        for commitment, envelope in envelopes:
            key = bytes.fromhex(commitment)
            if sha256(envelope).digest() != key:
                raise ChecksumMismatch(f"payload {commitment} is not the one that was archived; nothing was restored")
            row = db.execute(query, (low, low + (1 << 24 + PAYLOAD_BITS), key)).fetchone()
            if row is not None:
                packed = writer.codec.pack_envelope(envelope)
                db.execute("DELETE FROM archived WHERE payload_id = ?", row)
                db.execute("INSERT INTO payloads VALUES (?, ?, ?)", (row[0], key, packed))
                count += 1
    return count


def archives(reader: Reads, run_id: str) -> list[Archive]:
    return [Archive(*row) for row in reader.query(ARCHIVES, (run_id,))]


def is_archived(reader: Reads, run_id: str, commitment: str) -> bool:
    return bool(reader.query(LYING, (run_id, bytes.fromhex(commitment))))


def archived_values(reader: Reads, run_no: int) -> list[str]:
    low = run_no << 24 + PAYLOAD_BITS
    rows = reader.query(f"SELECT commitment FROM archived WHERE {IN_RUN}", (low, low + (1 << 24 + PAYLOAD_BITS)))
    return [commitment.hex() for (commitment,) in rows]


def sealed_with_values(reader: Reads) -> Iterable[str]:
    last = ""
    while rows := reader.query(ENDED_WITH_VALUES, (last,)):
        for (last,) in rows:
            yield last
