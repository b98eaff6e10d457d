"""Values taken out of a store file: their rows, what points to them, and the bytes that they leave in the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from reenact.errors import RunNotFound, StoreBusy
from reenact.journal.chain import encode
from reenact.store.base import PAYLOAD_BITS, Archiving, Erasing
from reenact.store.beside.idempotency import IdempotencyKeys
from reenact.store.compression import Codec
from reenact.store.deltas import base_of
from reenact.store.erasures import erasure_record
from reenact.store.keys.notes import NotesTogether
from reenact.store.sqlite.connection import Connection
from reenact.store.sqlite.keys import KeyRows
from reenact.store.sqlite.signed import notes


def erase(writer: Connection, erasing: Erasing, ts: str, signed: NotesTogether, keys: IdempotencyKeys) -> int:
    """How many envelopes are gone, each with its record of that time and its note, at once."""
    with writer.transaction() as db:
        run_no = number_of(db, erasing.run_id)
        rows = payload_rows(db, run_no, erasing.commitments)
        stand_alone(db, writer.codec, writer.envelope, run_no, {row_id for row_id, _ in rows})
        for row_id, commitment in rows:
            db.execute("DELETE FROM payloads WHERE id = ?", (row_id,))
            db.execute("DELETE FROM contents WHERE run_no = ? AND payload_id = ?", (run_no, row_id))
            db.execute("DELETE FROM shared_payloads WHERE run_no = ? AND commitment = ?", (run_no, commitment))
            add_record(db, run_no, erasing, commitment, ts, signed)
        lying = archived_rows(db, run_no, erasing.commitments)
        for row_id, commitment, bundle in lying:  # whoever keeps the bundle destroys what is there
            db.execute("DELETE FROM archived WHERE payload_id = ?", (row_id,))
            db.execute("DELETE FROM contents WHERE run_no = ? AND payload_id = ?", (run_no, row_id))
            db.execute("DELETE FROM shared_payloads WHERE run_no = ? AND commitment = ?", (run_no, commitment))
            add_record(db, run_no, erasing, commitment, ts, signed, bundle=bundle)
        if db.execute("SELECT 1 FROM erasures WHERE run_no = ?", (run_no,)).fetchone() is not None:
            for trace_id in sorted(erasing.traces):  # also what came in after an earlier erasure
                db.execute("DELETE FROM late_effects WHERE run_no = ? AND trace_id = ?", (run_no, trace_id))
                db.execute("DELETE FROM ballots WHERE run_no = ? AND trace_id = ?", (run_no, trace_id))
        if erasing.whole:
            db.execute("UPDATE runs SET cancel = NULL WHERE run_no = ?", (run_no,))
            # What recovery starts from holds the run's salt, by which its arguments could be guessed from its keys.
            db.execute("DELETE FROM run_checkpoints WHERE id >= ? AND id < ?", (run_no << 24, (run_no + 1) << 24))
        forget_requests(db, run_no, erasing, keys)
        signed.settle()
    return len(rows) + len(lying)


def add_record(
    db: sqlite3.Connection,
    run_no: int,
    erasing: Erasing | Archiving,
    commitment: bytes,
    ts: str,
    signed: NotesTogether,
    *,
    bundle: str | None = None,
) -> None:
    """The next record of the chain, and its signature."""
    last = db.execute("SELECT body FROM erasures ORDER BY id DESC LIMIT 1").fetchone()
    after = last[0] if last else None
    record = erasure_record(erasing, commitment.hex(), ts, after=after, bundle=bundle)
    db.execute("INSERT INTO erasures (run_no, body) VALUES (?, ?)", (run_no, encode(record)))
    notes.write(db, signed.note(record.schema, str(record.digest)))


def archived_rows(db: sqlite3.Connection, run_no: int, chosen: frozenset[str]) -> list[tuple[int, bytes, str]]:
    low = run_no << 24 + PAYLOAD_BITS
    rows = db.execute(
        "SELECT payload_id, commitment, bundle FROM archived WHERE payload_id >= ? AND payload_id < ?",
        (low, low + (1 << 24 + PAYLOAD_BITS)),
    ).fetchall()
    return [row for row in rows if row[1].hex() in chosen]


def forget_requests(db: sqlite3.Connection, run_no: int, erasing: Erasing, keys: IdempotencyKeys) -> None:
    """By the digest beside a key its request could be guessed: of what is erased only the agent stays known."""
    rows = db.execute("SELECT server, tool, key, trace_id FROM idempotency WHERE run_no = ?", (run_no,)).fetchall()
    for server, tool, key, trace_id in rows:
        if erasing.whole or trace_id in erasing.traces:
            keys.forget_request(KeyRows(db.execute), (server, tool, key))


def number_of(db: sqlite3.Connection, run_id: str) -> int:
    row = db.execute("SELECT run_no FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        raise RunNotFound(f"no run {run_id} in this store")
    return int(row[0])


def payload_rows(db: sqlite3.Connection, run_no: int, chosen: frozenset[str]) -> list[tuple[int, bytes]]:
    low = run_no << 24 + PAYLOAD_BITS
    rows = db.execute(
        "SELECT id, commitment FROM payloads WHERE id >= ? AND id < ? ORDER BY id",
        (low, low + (1 << 24 + PAYLOAD_BITS)),
    )
    return [(row_id, commitment) for row_id, commitment in rows if commitment.hex() in chosen]


def stand_alone(
    db: sqlite3.Connection, codec: Codec, envelope_of: Callable[[bytes], bytes], run_no: int, going: set[int]
) -> None:
    """Envelopes that stay but build on one that goes are stored whole first."""
    low = run_no << 24 + PAYLOAD_BITS
    rows = db.execute(
        "SELECT id, commitment, body FROM payloads WHERE id >= ? AND id < ?", (low, low + (1 << 24 + PAYLOAD_BITS))
    ).fetchall()
    whole = [
        (row_id, commitment, codec.pack_envelope(envelope_of(stored)))
        for row_id, commitment, stored in rows
        if base_of(stored) in going and row_id not in going
    ]
    for row in whole:
        db.execute("DELETE FROM payloads WHERE id = ?", row[:1])
        db.execute("INSERT INTO payloads VALUES (?, ?, ?)", row)


def empty_log(connection: Connection) -> None:
    """The write-ahead log still holds the pages as they were; StoreBusy while a reader keeps it from being emptied."""
    ((busy, _, _),) = connection.query("PRAGMA wal_checkpoint(TRUNCATE)")
    if busy:
        raise StoreBusy(
            f"the values are erased, but their bytes stay in {connection.path}-wal while another process reads there; "
            "erase again when it has ended"
        )
