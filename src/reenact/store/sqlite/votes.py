"""Votes that wait in the store until whoever holds the run hears of them."""

from __future__ import annotations

import sqlite3

import msgspec

from reenact.contracts.records import ENDED
from reenact.errors import RunNotFound
from reenact.store.keys import ballots
from reenact.store.signing import SigningKey
from reenact.store.sqlite.connection import Connection, Reads


def put_in(
    writer: Connection, run_id: str, trace_id: str, body: bytes, *, settles: bool, replaces: bytes | None = None
) -> bool:
    """Keep a vote; False when there is one about this call, unless it `replaces` just that one, or the run has ended.
    With `settles` nobody is asked anything more, and the run no longer counts as waiting."""
    with writer.transaction() as db:
        row = db.execute("SELECT run_no, status FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            raise RunNotFound(f"no run {run_id} in {writer.path}")
        run_no, status = row
        if status in ENDED:
            return False
        if replaces is not None:
            other = (run_no, trace_id, replaces)
            db.execute("DELETE FROM ballots WHERE run_no = ? AND trace_id = ? AND CAST(body AS BLOB) = ?", other)
        cursor = db.execute("INSERT OR IGNORE INTO ballots VALUES (?, ?, ?)", (run_no, trace_id, body))
        if cursor.rowcount == 1 and settles:
            db.execute("UPDATE runs SET status = 'pending' WHERE run_no = ? AND status = 'waiting'", (run_no,))
        return cursor.rowcount == 1


def of_run(reader: Reads, run_id: str) -> dict[str, bytes]:
    """By trace id."""
    rows = reader.query(
        "SELECT CAST(b.trace_id AS BLOB), CAST(b.body AS BLOB) FROM ballots b JOIN runs r ON r.run_no = b.run_no "
        "WHERE r.run_id = ?",
        (run_id,),
    )
    return {bytes(trace_id or b"").decode("utf-8", "replace"): bytes(body or b"") for trace_id, body in rows}


def sign_all(db: sqlite3.Connection, key: SigningKey, store_id: str) -> int:
    """Votes that were left before they were signed, signed as they are found; how many."""
    rows = db.execute(
        "SELECT b.run_no, r.run_id, b.trace_id, b.body FROM ballots b JOIN runs r ON r.run_no = b.run_no"
    ).fetchall()
    count = 0
    for run_no, run_id, trace_id, body in rows:
        try:
            said = msgspec.json.decode(body, type=dict[str, object])
        except (msgspec.DecodeError, TypeError, UnicodeDecodeError, RecursionError):
            continue
        own = ballots.signed(key, store_id, said, run_id=run_id, trace_id=str(trace_id))
        db.execute("UPDATE ballots SET body = ? WHERE run_no = ? AND trace_id = ?", (own, run_no, trace_id))
        count += 1
    return count


def burn(db: sqlite3.Cursor, run_no: int) -> None:
    """The run has ended: nobody will hear what is still there."""
    db.execute("DELETE FROM ballots WHERE run_no = ?", (run_no,))
