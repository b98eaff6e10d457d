"""A world that keeps its own books: which calls arrived, in which order, and what they did.

It is an SQLite file of its own, so that what the journal claims can be checked from outside. The skills below are also
loaded by the real command line (`--skills tests/crash/world.py`); the ledger's path travels as a parameter.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from reenact import SkillContext, skill

SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    id INTEGER PRIMARY KEY, run_id TEXT, trace_id TEXT, step_id TEXT, attempt INTEGER, key TEXT
);
CREATE TABLE IF NOT EXISTS effects (key TEXT PRIMARY KEY, step_id TEXT);
"""


@dataclass(frozen=True)
class Arrival:
    """One call as the world saw it."""

    run_id: str
    trace_id: str
    step_id: str
    attempt: int
    key: str


class Ledger:
    """Counts calls, and effects by idempotency key: a tool that honours keys acts once for each."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        with self._open() as db:
            db.executescript(SCHEMA)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")  # the process dies here, not the machine
            yield db

    def arrive(self, ctx: SkillContext) -> int:
        """Notes a call; how many with its key came before it."""
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            (before,) = db.execute("SELECT count(*) FROM calls WHERE key = ?", (ctx.idempotency_key,)).fetchone()
            db.execute(
                "INSERT INTO calls (run_id, trace_id, step_id, attempt, key) VALUES (?, ?, ?, ?, ?)",
                (ctx.run_id, ctx.trace_id, ctx.step_id, ctx.attempt, ctx.idempotency_key),
            )
            db.execute("COMMIT")
        return int(before)

    def act(self, ctx: SkillContext) -> None:
        """The effect itself: once for each key, however often it is asked for."""
        with self._open() as db:
            db.execute("INSERT OR IGNORE INTO effects VALUES (?, ?)", (ctx.idempotency_key, ctx.step_id))

    def calls(self) -> list[Arrival]:
        with self._open() as db:
            rows = db.execute("SELECT run_id, trace_id, step_id, attempt, key FROM calls ORDER BY id").fetchall()
        return [Arrival(*row) for row in rows]

    def effects(self) -> dict[str, str]:
        """The step that was acted for, by key."""
        with self._open() as db:
            return dict(db.execute("SELECT key, step_id FROM effects").fetchall())


@skill("act", version="1.0.0", tool_class="write", honours_key=True, side_effects=["ledger_write"])
def act(ctx: SkillContext, ledger: str, value: int) -> dict[str, int]:
    """Writes to the world, once for each key."""
    book = Ledger(ledger)
    book.arrive(ctx)
    ctx.side_effect("ledger_write", ctx.step_id)
    book.act(ctx)
    return {"value": value}


@skill(
    "flaky",
    version="1.0.0",
    tool_class="write",
    honours_key=True,
    retry={"max_retries": 4, "backoff_base_ms": 1},
)
def flaky(ctx: SkillContext, ledger: str, failures: int) -> dict[str, int]:
    """Refuses the connection until it was asked often enough."""
    book = Ledger(ledger)
    before = book.arrive(ctx)
    if before < failures:
        raise ConnectionRefusedError(111, "not yet")
    book.act(ctx)
    return {"before": before}


@skill("note", version="1.0.0", tool_class="write", honours_key=True)
async def note(ctx: SkillContext, ledger: str, text: str) -> str:
    """As `act`, on the loop of the run itself."""
    book = Ledger(ledger)
    book.arrive(ctx)
    book.act(ctx)
    return text
