"""Values of sealed runs that lie in a bundle: taken out of a store file with a record, and put back where they lay."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from reenact.errors import ChecksumMismatch
from reenact.store.base import PAYLOAD_BITS, Archiving
from reenact.store.keys.notes import NotesTogether
from reenact.store.sqlite.connection import Connection
from reenact.store.sqlite.erasing import add_record, number_of, payload_rows, stand_alone


def archive(writer: Connection, archiving: Archiving, ts: str, signed: NotesTogether) -> int:
    """How many envelopes are gone, each with its record of that time and its note, at once."""
    with writer.transaction() as db:
        run_no = number_of(db, archiving.run_id)
        rows = payload_rows(db, run_no, archiving.commitments)
        stand_alone(db, writer.codec, writer.envelope, run_no, {row_id for row_id, _ in rows})
        place = (run_no, archiving.bundle, archiving.place)
        db.execute("INSERT OR REPLACE INTO archives VALUES (?, ?, ?)", place)
        for row_id, commitment in rows:
            db.execute("DELETE FROM payloads WHERE id = ?", (row_id,))
            db.execute("INSERT INTO archived VALUES (?, ?, ?)", (row_id, commitment, archiving.bundle))
            add_record(db, run_no, archiving, commitment, ts, signed, bundle=archiving.bundle)
        signed.settle()
    return len(rows)


def restore(writer: Connection, run_id: str, envelopes: Iterable[tuple[str, bytes]]) -> int:
    """How many are back where they lay; ChecksumMismatch, and nothing done, where one is not that of its commitment."""
    with writer.transaction() as db:
        low = number_of(db, run_id) << 24 + PAYLOAD_BITS
        query = "SELECT payload_id FROM archived WHERE payload_id >= ? AND payload_id < ? AND commitment = ?"
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
