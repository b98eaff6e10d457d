"""The rows of idempotency keys in a database: `reenact.store.beside.idempotency` says what stands in them."""

from __future__ import annotations

from reenact.store.beside.idempotency import KeyRow, Place
from reenact.store.postgres.opened.database import Asks

COLUMNS = "server, tool, key, request_digest, agent_id, trace_id, run_no, state, next, mac"
NEAREST = (
    f"SELECT {COLUMNS} FROM :schema.idempotency WHERE (server, tool, key) <= (%s, %s, %s) "
    "ORDER BY server DESC, tool DESC, key DESC LIMIT 1"
)
PUT = (
    f"INSERT INTO :schema.idempotency AS i ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) "
    "ON CONFLICT (server, tool, key) DO UPDATE SET request_digest = excluded.request_digest, "
    "agent_id = excluded.agent_id, trace_id = excluded.trace_id, run_no = excluded.run_no, state = excluded.state, "
    "next = excluded.next, mac = excluded.mac"
)
SESSIONS = (
    "SELECT DISTINCT ON (agent_id, session) agent_id, session, run_no, run_id FROM :schema.runs "
    "WHERE session IS NOT NULL ORDER BY agent_id, session, run_no DESC"
)
LOCK = "SELECT 1 FROM :schema.counters WHERE name = 'idempotency' FOR UPDATE"
"""Rows name their neighbours: whoever changes one holds them all."""


class KeyRows:
    """`reenact.store.beside.idempotency.IdempotencyRows`, as whatever is asked sees them. Who writes holds `LOCK`."""

    vouch_for_amounts = False

    def __init__(self, db: Asks) -> None:
        self._db = db

    def nearest(self, place: Place) -> KeyRow | None:
        rows = self._db.ask(NEAREST, place)
        return KeyRow(*rows[0]) if rows else None

    def put(self, row: KeyRow) -> None:
        self._db.ask(PUT, row)

    def run_id(self, run_no: int) -> str | None:
        rows = self._db.ask("SELECT run_id FROM :schema.runs WHERE run_no = %s", (run_no,))
        return rows[0][0] if rows else None

    def secret(self) -> bytes | None:
        rows = self._db.ask("SELECT secret FROM :schema.key_secret")
        return rows[0][0] if rows else None

    def sessions(self) -> list[tuple[str, str, int, str]]:
        return self._db.ask(SESSIONS)

    def amounts(self) -> list[tuple[str, str, str, str]]:
        """None: those who spend at the same time write to rows of their own, and wait for nobody."""
        return []

    def all(self) -> list[KeyRow]:
        return [KeyRow(*row) for row in self._db.ask(f"SELECT {COLUMNS} FROM :schema.idempotency ORDER BY 1, 2, 3")]

    def forget(self, server: str, tool: str) -> None:
        self._db.ask("DELETE FROM :schema.idempotency WHERE server = %s AND tool = %s", (server, tool))
