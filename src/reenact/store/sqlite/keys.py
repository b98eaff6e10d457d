"""Idempotency keys that callers gave: reserved in the transaction of the call."""

from __future__ import annotations

import sqlite3

from reenact.errors import KeyTaken
from reenact.store.base import KeyReservation


def reserve_key(db: sqlite3.Cursor, reserve: KeyReservation, run_no: int) -> None:
    """The key is this call's from here on; KeyTaken when another call holds it or has used it up."""
    cursor = db.execute(
        "INSERT INTO idempotency VALUES (?, ?, ?, ?, ?, ?, ?, 'reserved') "
        "ON CONFLICT (server, tool, key) DO UPDATE SET trace_id = excluded.trace_id, run_no = excluded.run_no, "
        "request_digest = excluded.request_digest, agent_id = excluded.agent_id, state = 'reserved' "
        "WHERE idempotency.state = 'released' OR idempotency.trace_id = excluded.trace_id "
        "OR (idempotency.state = 'in_doubt' AND idempotency.trace_id = ?)",
        (
            reserve.server, reserve.tool, reserve.key, reserve.request_digest, reserve.agent_id,
            reserve.trace_id, run_no, reserve.after,
        ),
    )  # fmt: skip
    if cursor.rowcount != 1:
        raise KeyTaken(f"trace {reserve.trace_id}: another call of {reserve.server}.{reserve.tool} holds its key")
