"""`reenact log prove` in a store with 1,000,000 seals against one with 10,000: `python -m benchmarks.large_log`.

The rows of most runs are written set-wise, and their leaves made up; a hundred runs are real; one of them is proven.
"""

from __future__ import annotations

import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from reenact import Runtime, skill
from reenact.store.log.log import Edge
from reenact.store.log.rows import SignedHead
from reenact.store.sqlite.log.rows import LEVEL_BITS
from reenact.store.sqlite.store import SqliteStore
from reenact.verify.log.checkpoint import Head
from reenact.verify.log.merkle import joined

SMALL, LARGE = 10_000, 1_000_000
REAL = 100
ROUNDS = 20
MOST = 2.0
FILL = """
WITH RECURSIVE n(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n WHERE i < :last)
INSERT INTO {table} SELECT {columns} FROM n
"""
RUNS = (
    "i, printf('ffffffff-0000-7000-8000-%012x', i), 'plan', 'live', NULL, 'p', 'a', 'completed', '', x'00', NULL, "
    "1, 0, NULL, NULL"
)


@skill("touch", version="1.0.0", tool_class="read")
def touch(number: int) -> int:
    return number


def made(folder: Path, size: int) -> tuple[SqliteStore, str]:
    """A store of that many seals, and a run of it that is real."""
    store = SqliteStore(str(folder / "store.db"))
    runtime = Runtime(store, skills=[touch])
    for number in range(REAL):
        with runtime.session(agent_id="a") as session:
            session.call("touch", {"number": number})
    store.log.advance()
    leaves = list(store.log.leaves())
    run_id = store.runs(limit=REAL)[REAL // 2].run_id
    edge = Edge(REAL, [store.log.rows.nodes([node])[node] for node in complete_of(REAL)])
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("BEGIN")
        for table, columns in (("runs", RUNS), ("seals", "i, i, printf('%064x', i)")):
            db.execute(FILL.format(table=table, columns=columns), {"first": len(leaves) + 1, "last": size})
        while edge.size < size:
            edge.append(sha256(edge.size.to_bytes(8, "big")).digest())
        rows = ((level << LEVEL_BITS | index, node) for (level, index), node in edge.added)
        db.executemany("INSERT INTO log_nodes VALUES (?, ?)", rows)
        db.execute("COMMIT")
    head, key = Head(store.log.origin, size, joined(edge.hashes)), store.signing_key
    assert store.log.rows.grow(size, [], SignedHead(size, head.root, key.kid, key.sign(head.text())))
    return store, run_id


def complete_of(size: int) -> list[tuple[int, int]]:
    from reenact.verify.log.merkle import complete

    return complete(0, size)


def median_s(store: SqliteStore, run_id: str) -> tuple[float, float]:
    """(of the command, of the proof alone)"""
    command = [sys.executable, "-m", "reenact", "log", "prove", run_id, "--store", store.path]
    whole, alone = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        whole.append(time.perf_counter() - began)
        began = time.perf_counter()
        assert store.log.proof(REAL // 2, store.log.rows.size()) is not None
        alone.append(time.perf_counter() - began)
    return statistics.median(whole), statistics.median(alone)


def main() -> None:
    found = {}
    for size in (SMALL, LARGE):
        with tempfile.TemporaryDirectory() as folder:
            store, run_id = made(Path(folder), size)
            found[size] = median_s(store, run_id)
            bytes_ = Path(store.path).stat().st_size
            store.close()
        command, alone = found[size]
        print(
            f"{size:>9,} seals: log prove {command * 1000:.0f} ms, the proof {alone * 1000:.2f} ms, {bytes_ >> 20} MiB"
        )
    ratios = [large / small for small, large in zip(found[SMALL], found[LARGE], strict=True)]
    print(f"ratio {ratios[0]:.2f}, of the proof alone {ratios[1]:.2f}; at most {MOST}")
    sys.exit(any(ratio > MOST for ratio in ratios[:1]))


if __name__ == "__main__":
    main()
