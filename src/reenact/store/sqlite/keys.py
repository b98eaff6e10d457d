"""The rows of idempotency keys in a store file: `reenact.store.beside.idempotency` says what stands in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from reenact.store.beside.idempotency import IdempotencyKeys, KeyRow, Place, another_session, is_linked

__all__ = ["IdempotencyKeys", "KeyRows", "another_session", "is_linked"]

SESSIONS = (
    "SELECT CAST(agent_id AS BLOB), CAST(session AS BLOB), max(run_no), run_id FROM runs "
    "WHERE typeof(agent_id) = 'text' AND typeof(session) = 'text' GROUP BY agent_id, session"
)
AMOUNTS = (
    "SELECT CAST(day AS BLOB), CAST(agent_id AS BLOB), CAST(model AS BLOB), CAST(exact AS BLOB) FROM spending "
    "WHERE typeof(day) = 'text' AND typeof(agent_id) = 'text' AND typeof(model) = 'text' AND typeof(exact) = 'text'"
)
COLUMNS = "server, tool, key, request_digest, agent_id, trace_id, run_no, state, next, mac"
NEAREST = (
    f"SELECT {COLUMNS} FROM idempotency WHERE (server, tool, key) <= (?, ?, ?) "
    "ORDER BY server DESC, tool DESC, key DESC LIMIT 1"
)
Ask = Callable[[str, tuple[object, ...]], Iterable[Any]]


class KeyRows:
    """`reenact.store.beside.idempotency.IdempotencyRows`, as whatever is asked sees them."""

    vouch_for_amounts = True

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def nearest(self, place: Place) -> KeyRow | None:
        for row in self._ask(NEAREST, place):
            return KeyRow(*row)
        return None

    def put(self, row: KeyRow) -> None:
        self._ask(f"INSERT OR REPLACE INTO idempotency ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def run_id(self, run_no: int) -> str | None:
        for (run_id,) in self._ask("SELECT run_id FROM runs WHERE run_no = ?", (run_no,)):
            return str(run_id)
        return None

    def secret(self) -> bytes | None:
        for (secret,) in self._ask("SELECT secret FROM key_secret WHERE typeof(secret) = 'blob'", ()):
            return bytes(secret)
        return None

    def sessions(self) -> list[tuple[str, str, int, str]]:
        found = []
        for agent, session, run_no, run_id in list(self._ask(SESSIONS, ())):
            with suppress(UnicodeDecodeError):  # nobody can ask for it
                found.append((agent.decode(), session.decode(), run_no, run_id))
        return found

    def amounts(self) -> list[tuple[str, str, str, str]]:
        found = []
        for cells in list(self._ask(AMOUNTS, ())):
            with suppress(UnicodeDecodeError):  # nobody can ask for it
                day, agent_id, model, exact = (cell.decode() for cell in cells)
                found.append((day, agent_id, model, exact))
        return found

    def all(self) -> list[KeyRow]:
        return [KeyRow(*row) for row in self._ask(f"SELECT {COLUMNS} FROM idempotency ORDER BY 1, 2, 3", ())]

    def forget(self, server: str, tool: str) -> None:
        self._ask("DELETE FROM idempotency WHERE server = ? AND tool = ?", (server, tool))
