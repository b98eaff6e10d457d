"""Votes that wait in the store until whoever holds the run hears of them."""

from __future__ import annotations

from reenact.contracts.records import ENDED
from reenact.errors import RunNotFound
from reenact.store.postgres.opened.database import Asks


def put_in(db: Asks, run_id: str, trace_id: str, body: bytes, *, settles: bool, replaces: bytes | None = None) -> bool:
    """Keep a vote; False when there is one about this call, unless it `replaces` just that one, or the run has ended.
    With `settles` nobody is asked anything more, and the run no longer counts as waiting."""
    rows = db.ask("SELECT run_no, status FROM :schema.runs WHERE run_id = %s FOR NO KEY UPDATE", (run_id,))
    if not rows:
        raise RunNotFound(f"no run {run_id} in this store")
    ((run_no, status),) = rows
    if status in ENDED:
        return False
    if replaces is not None:
        sql = "DELETE FROM :schema.ballots WHERE run_no = %s AND trace_id = %s AND body = %s"
        db.ask(sql, (run_no, trace_id, replaces))
    db.ask("INSERT INTO :schema.ballots VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (run_no, trace_id, body))
    ((kept,),) = db.ask("SELECT body FROM :schema.ballots WHERE run_no = %s AND trace_id = %s", (run_no, trace_id))
    if kept != body:
        return False
    if settles:
        db.ask("UPDATE :schema.runs SET status = 'pending' WHERE run_no = %s AND status = 'waiting'", (run_no,))
    return True


def of_run(db: Asks, run_id: str) -> dict[str, bytes]:
    """By trace id."""
    return dict(
        db.ask(
            "SELECT b.trace_id, b.body FROM :schema.ballots b JOIN :schema.runs r ON r.run_no = b.run_no "
            "WHERE r.run_id = %s",
            (run_id,),
        )
    )
