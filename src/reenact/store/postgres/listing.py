"""Many runs at once: lists of them, page by page by run number, and what they add up to."""

from __future__ import annotations

from typing import Any

from reenact.contracts.records import RunStatus
from reenact.errors import RunNotFound
from reenact.store.base import RunRow, Tally
from reenact.store.postgres.opened.database import Asks, Database

RUN_COLUMNS = (
    "r.run_id, r.kind, r.mode, r.status, r.plan_id, r.agent_id, r.parent_run, "
    "coalesce((SELECT c.n FROM :schema.commits c WHERE c.run_no = r.run_no ORDER BY c.n DESC LIMIT 1), 0), "
    "r.started_at, r.session"
)
RUNS = f"SELECT {RUN_COLUMNS} FROM :schema.runs r"
PAGE = 1000
LISTED = f"SELECT r.run_no, {RUN_COLUMNS} FROM"
ALL = f"{LISTED} (SELECT * FROM :schema.runs WHERE run_no < %s ORDER BY run_no DESC LIMIT %s) r ORDER BY r.run_no DESC"
OF_STATUS = (
    "(SELECT * FROM :schema.runs s WHERE s.status = %s AND s.run_no < %s "
    "ORDER BY s.status DESC, s.run_no DESC LIMIT %s)"
)
"""Of several statuses each is looked for apart, and by its own name: a few runs among many are found by the index."""
SEALED = (
    f"SELECT s.id, {RUN_COLUMNS} FROM (SELECT id, run_no FROM :schema.seals WHERE id > %s ORDER BY id LIMIT %s) s "
    "JOIN :schema.runs r ON r.run_no = s.run_no ORDER BY s.id"
)
KEEP = (
    "INSERT INTO :schema.tallies AS t VALUES (%s, %s, %s) ON CONFLICT (name) DO UPDATE "
    "SET sealed = excluded.sealed, sums = excluded.sums WHERE t.sealed < excluded.sealed RETURNING 1"
)


def listed(db: Asks, status: tuple[RunStatus, ...] | None, limit: int | None, before: str | None) -> list[RunRow]:
    found, last = list[RunRow](), 1 << 62 if before is None else number_of(db, before)
    while limit is None or len(found) < limit:
        page = PAGE if limit is None else min(limit - len(found), PAGE)
        rows: list[Any]
        if status:
            statuses = dict.fromkeys(status)
            chosen = " UNION ALL ".join([OF_STATUS] * len(statuses))
            values = [value for one in statuses for value in (one, last, page)]
            sql = f"{LISTED} (SELECT * FROM ({chosen}) f ORDER BY f.run_no DESC LIMIT %s) r ORDER BY r.run_no DESC"
            rows = db.ask(sql, (*values, page))
        else:
            rows = db.ask(ALL, (last, page))
        found += [RunRow(*row[1:]) for row in rows]
        if len(rows) < page:
            break
        last = rows[-1][0]
    return found


def number_of(db: Asks, run_id: str) -> int:
    rows = db.ask("SELECT run_no FROM :schema.runs WHERE run_id = %s", (run_id,))
    if not rows:
        raise RunNotFound(f"no run {run_id} in this store")
    return int(rows[0][0])


def replays(db: Asks, run_id: str) -> list[RunRow]:
    return [RunRow(*row) for row in db.ask(f"{RUNS} WHERE r.parent_run = %s ORDER BY r.run_no DESC", (run_id,))]


def sealed(db: Asks, after: int, limit: int) -> list[tuple[int, RunRow]]:
    return [(row[0], RunRow(*row[1:])) for row in db.ask(SEALED, (after, limit))]


def tally(db: Asks, name: str) -> Tally | None:
    rows = db.ask("SELECT sealed, sums FROM :schema.tallies WHERE name = %s", (name,))
    return Tally(*rows[0]) if rows else None


def keep(database: Database, name: str, kept: Tally) -> bool:
    return bool(database.transact(lambda db: db.ask(KEEP, (name, kept.sealed, kept.sums))))
