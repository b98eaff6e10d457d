"""Steps of a plan beside a raw loop: one row of the same bytes per step, committed on the same disk.

The raw loop is what somebody would write who wants each step durable and nothing else: SQLite, WAL,
`synchronous=FULL`, one INSERT per transaction. Its rows are the very bytes that a plan's steps left in the store.

The two take turns: every twenty steps the plan stands still inside its skill while the raw loop commits twenty rows, so
that a disk which is busy for a second meets both. All that either of them spends counts, from the first step or row to
the last, with what it takes to begin and to seal the run, and with moving both logs into their databases: a thousand
steps are enough for both logs to be past their growth, as in a store that has been in use for a while.

The ratio judges nothing: it tells a slow disk from a fast one, and the slower the disk the better it looks.
"""

from __future__ import annotations

import sqlite3
import statistics
from pathlib import Path

from benchmarks.figure import Figure, Race, seconds
from benchmarks.plans import note, plan, runtime, workplace
from reenact import skill
from reenact.skills.skill import Skill
from reenact.store.base import PAYLOAD_BITS

TURN = 20
PLAN, RAW = 0, 1


def measure(steps: int = 1000, rounds: int = 5) -> list[Figure]:
    with workplace() as folder:
        rows = stored_rows(folder / "rows.db", steps)
        plain = Race(tuple(turns(folder / f"async-{number}", rows, in_a_thread=False) for number in range(rounds)))
        threaded = Race(tuple(turns(folder / f"sync-{number}", rows, in_a_thread=True) for number in range(rounds)))
    size = sum(map(len, rows)) // len(rows)
    return [
        Figure(
            name="plan, steps/s beside a raw loop",
            value=plain.median_ratio(RAW, PLAN),
            note=f"{both(plain, steps)}, {size} bytes",
        ),
        Figure(
            name="the same with a skill that runs in a thread",
            value=threaded.median_ratio(RAW, PLAN),
            note=both(threaded, steps),
        ),
    ]


def both(found: Race, steps: int) -> str:
    plan_us, raw_us = (statistics.median(times[side] for times in found.rounds) / steps * 1e6 for side in (PLAN, RAW))
    return f"{plan_us:.0f} and {raw_us:.0f} µs"


def turns(folder: Path, rows: list[bytes], *, in_a_thread: bool) -> tuple[float, float]:
    """Seconds of a plan with a step for each row, and of a raw loop over the rows."""
    folder.mkdir()
    raw = open_raw(folder / "raw.db")
    raw_turns: list[float] = []

    def turn(number: int) -> None:
        if number % TURN == 0:
            raw_turns.append(seconds(lambda: commit_each(raw, rows[number : number + TURN])))

    steps = plan(len(rows), "turn")
    with runtime(folder / "plan.db", [turning(turn, in_a_thread=in_a_thread)]) as opened:
        whole = seconds(lambda: check(opened.run(steps).ok))
    raw.close()
    return whole - sum(raw_turns), sum(raw_turns)


def turning(turn: object, *, in_a_thread: bool) -> Skill:
    """The skill of the plan: `note`, with a look at whose turn it is."""
    assert callable(turn)

    @skill("turn", version="1.0.0", idempotent=True)
    async def asynchronous(text: str, count: int) -> dict[str, str | int]:
        turn(count)
        return {"said": text, "next": count + 1}

    @skill("turn", version="1.0.0", idempotent=True)
    def synchronous(text: str, count: int) -> dict[str, str | int]:
        turn(count)
        return {"said": text, "next": count + 1}

    return synchronous if in_a_thread else asynchronous


def stored_rows(path: Path, steps: int) -> list[bytes]:
    """What each commit of a run put on the disk: its body and its payloads, as they lie there."""
    with runtime(path, [note]) as opened:
        check(opened.run(plan(steps)).ok)
    db = sqlite3.connect(path)
    bodies = dict(db.execute("SELECT id, body FROM commits ORDER BY id"))
    for payload_id, commitment, body in db.execute("SELECT id, commitment, body FROM payloads ORDER BY id"):
        bodies[payload_id >> PAYLOAD_BITS] += commitment + body
    db.close()
    first, *others = list(bodies.values())
    return [others[0] if others else first, *others][:steps]  # the first one also holds the plan


def open_raw(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    return db


def commit_each(db: sqlite3.Connection, rows: list[bytes]) -> None:
    for row in rows:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO log (body) VALUES (?)", (row,))
        db.execute("COMMIT")


def check(ok: bool) -> None:  # noqa: FBT001
    assert ok, "a run that fails measures nothing"
