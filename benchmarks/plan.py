"""Steps of a plan beside a raw loop: one row of the same bytes per step, committed on the same disk.

The raw loop is what somebody would write who wants each step durable and nothing else: SQLite, WAL,
`synchronous=FULL`, one INSERT per transaction. Its rows are the very bytes that a plan's steps left in the store.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from benchmarks.figure import Figure, race, seconds
from benchmarks.plans import plan, runtime, workplace
from reenact.store.base import PAYLOAD_BITS

LEAST = 0.5


def measure(steps: int = 500, rounds: int = 9) -> list[Figure]:
    with workplace() as folder:
        rows = stored_rows(folder / "rows.db", steps)
        times = race(
            [
                lambda: raw_loop(fresh(folder), rows),
                lambda: plan_run(fresh(folder), steps, "note"),
                lambda: plan_run(fresh(folder), steps, "note_in_a_thread"),
            ],
            rounds,
        )
    raw, ours, threaded = (times.best(side) / steps * 1e6 for side in range(3))
    size = sum(map(len, rows)) // len(rows)
    return [
        Figure(
            name="plan, steps/s beside a raw loop",
            value=times.ratio(0, 1),
            least=LEAST,
            note=f"{ours:.0f} and {raw:.0f} µs, {size} bytes each; median {times.median_ratio(0, 1):.2f}",
        ),
        Figure(
            name="the same with a skill that runs in a thread",
            value=times.ratio(0, 2),
            note=f"{threaded:.0f} µs a step; median {times.median_ratio(0, 2):.2f}",
        ),
    ]


def fresh(folder: Path) -> Path:
    """A store that nobody has used: the first pages of a file cost more than later ones, for both sides alike."""
    taken = len(list(folder.glob("store-*.db")))
    return folder / f"store-{taken}.db"


def stored_rows(path: Path, steps: int) -> list[bytes]:
    """What each commit of a run put on the disk: its body and its payloads, as they lie there."""
    plan_run(path, steps, "note")
    db = sqlite3.connect(path)
    bodies = dict(db.execute("SELECT id, body FROM commits ORDER BY id"))
    for payload_id, commitment, body in db.execute("SELECT id, commitment, body FROM payloads ORDER BY id"):
        bodies[payload_id >> PAYLOAD_BITS] += commitment + body
    db.close()
    first, *others = list(bodies.values())
    return [others[0] if others else first, *others][:steps]  # the first one also holds the plan


def raw_loop(path: Path, rows: list[bytes]) -> float:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def commit_each() -> None:
        for row in rows:
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO log (body) VALUES (?)", (row,))
            db.execute("COMMIT")

    took = seconds(commit_each)
    db.close()
    return took


def plan_run(path: Path, steps: int, skill_id: str) -> float:
    """A whole run: pinning, leases and the seal count too."""
    with runtime(path) as opened:
        document = plan(steps, skill_id)
        return seconds(lambda: check(opened.run(document).ok))


def check(ok: bool) -> None:  # noqa: FBT001
    assert ok, "a run that fails measures nothing"
