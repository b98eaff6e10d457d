"""How much disk a small step takes, with everything that is recorded of it: four entries, an attempt, three values."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.plan import check
from benchmarks.plans import plan, runtime, workplace

MOST_BYTES = 4_000


def measure(steps: int = 1_000) -> list[Figure]:
    with workplace() as folder:
        none, many = file_size(folder / "none.db", 1), file_size(folder / "many.db", steps + 1)
    return [
        Figure(
            name="disk per small step",
            value=(many - none) / steps,
            unit="bytes",
            most=MOST_BYTES,
            note=f"a file of {many:,} bytes after {steps + 1:,} steps, its log written back",
        )
    ]


def file_size(path: Path, steps: int) -> int:
    with runtime(path) as opened:
        check(opened.run(plan(steps)).ok)
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return path.stat().st_size
