"""Votes that wait in the store until whoever holds the run hears of them."""

from __future__ import annotations

import sqlite3

from reenact.contracts.records import ENDED
from reenact.errors import RunNotFound
from reenact.store.sqlite.connection import Connection


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
            db.execute(
                "DELETE FROM ballots WHERE run_no = ? AND trace_id = ? AND body = ?", (run_no, trace_id, replaces)
            )
        cursor = db.execute("INSERT OR IGNORE INTO ballots VALUES (?, ?, ?)", (run_no, trace_id, body))
        if cursor.rowcount == 1 and settles:
            db.execute("UPDATE runs SET status = 'pending' WHERE run_no = ? AND status = 'waiting'", (run_no,))
        return cursor.rowcount == 1


def of_run(reader: Connection, run_id: str) -> dict[str, bytes]:
    """By trace id."""
    rows = reader.query(
        "SELECT b.trace_id, b.body FROM ballots b JOIN runs r ON r.run_no = b.run_no WHERE r.run_id = ?", (run_id,)
    )
    return {trace_id: bytes(body) for trace_id, body in rows}


def burn(db: sqlite3.Cursor, run_no: int) -> None:
    """The run has ended: nobody will hear what is still there."""
    db.execute("DELETE FROM ballots WHERE run_no = ?", (run_no,))
