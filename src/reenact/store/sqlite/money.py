"""What an agent has spent on a day, and what is set apart for its calls in flight, so that runs and processes side by
side do not spend it twice.

What is set apart counts while somebody works on the run: that of a dead process is free as soon as the process is known
to be dead, and counts again when the run goes on. In a run that stands still for a person it counts whoever works on
it: what was sent there is in doubt.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

from reenact.errors import DamagedRecord
from reenact.store.base import Earmark
from reenact.store.beside.money import by_model, refuse_over_limit
from reenact.store.damage import TELLS_MORE
from reenact.store.sqlite.keys import IdempotencyKeys, KeyRows

LIVE = (
    "SELECT e.model, e.exact, CASE WHEN r.status IN ('held', 'waiting') THEN NULL ELSE r.owner END AS owner, "
    "e.trace_id "
    "FROM earmarks e JOIN runs r ON r.run_no = e.run_no WHERE e.day = ? AND e.agent_id = ? "
    "AND (r.status IN ('held', 'waiting') OR (r.owner IS NOT NULL AND r.expires_ms > ?))"
)
SPENT = "SELECT model, exact FROM spending WHERE day = ? AND agent_id = ?"


LONGEST_AMOUNT = 40


def spend(db: sqlite3.Cursor, rows: Iterable[tuple[str, str, str, int]], keys: IdempotencyKeys) -> None:
    """Add (day, agent, model, picodollars) to what was spent."""
    added = defaultdict[tuple[str, str], Counter[str]](Counter)
    for day, agent, model, exact in rows:
        added[day, agent][model] += exact
    for whose, new in added.items():
        before = dict(db.execute(SPENT, whose).fetchall())
        totals = {model: str(exact + amount(before.get(model, "0"))) for model, exact in new.items()}
        for model, total in totals.items():
            db.execute("INSERT OR REPLACE INTO spending VALUES (?, ?, ?, ?)", (*whose, model, total))
        keys.spend(KeyRows(db.execute), *whose, list(before.items()), list({**before, **totals}.items()))


def amount(exact: str) -> int:
    """Picodollars as a cell has them."""
    if not exact.isascii() or not exact.isdigit() or len(exact) > LONGEST_AMOUNT:
        raise DamagedRecord(f"exact: the cell holds no amount; {TELLS_MORE}")
    return int(exact)


def live(rows: Iterable[tuple[str, str, str | None, str]], besides: Collection[str]) -> dict[str, int]:
    """The rows of `LIVE`, without those whose owner is gone and those of the traces `besides`."""
    return by_model(((model, amount(exact), owner, trace_id) for model, exact, owner, trace_id in rows), besides)


def set_apart(db: sqlite3.Cursor, earmark: Earmark, run_no: int, now_ms: int, keys: IdempotencyKeys) -> None:
    """What a call may cost is the call's until it ends; FundsTaken where a limit would be passed."""
    whose = (earmark.day, earmark.agent_id)
    if earmark.binding:
        rows = db.execute(SPENT, whose).fetchall()
        keys.check_spent(KeyRows(db.execute), *whose, rows)
        spent = {model: amount(exact) for model, exact in rows}
        apart = live(db.execute(LIVE, (*whose, now_ms)).fetchall(), {earmark.trace_id})
        refuse_over_limit(earmark, spent, apart)
    db.execute(
        "INSERT OR REPLACE INTO earmarks VALUES (?, ?, ?, ?, ?, ?)",
        (run_no, earmark.trace_id, *whose, earmark.model, str(earmark.exact)),
    )


def free(db: sqlite3.Cursor, run_no: int, trace_ids: list[str]) -> None:
    """The calls have ended: what they cost is spent, the rest is there again."""
    db.executemany(
        "DELETE FROM earmarks WHERE run_no = ? AND trace_id = ?", [(run_no, trace_id) for trace_id in trace_ids]
    )


def free_all(db: sqlite3.Cursor, run_no: int) -> None:
    """The run has ended, over whatever calls it left open."""
    db.execute("DELETE FROM earmarks WHERE run_no = ?", (run_no,))
