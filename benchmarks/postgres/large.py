"""Commands on a store of 10,000,000 runs beside one of 10,000: `python -m benchmarks.postgres.large [RUNS]`.

Each has the same thousand runs that are real; the rows of the others are written set-wise. Commands take turns between
the two stores, twenty times each; a median may be at most twice what it is on the small one. It needs 15 GB in /tmp.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.postgres.server import Server

from benchmarks.postgres.filling import Large

SMALL, LARGE = 10_000, 10_000_000
REAL = 1000
ROUNDS = 20
MOST = 2.0
SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "maintenance_work_mem": "256MB",
}
COMMANDS = (
    "ls",
    "ls --limit 20",
    "ls --waiting",
    "show {}",
    "verify {}",
    "log prove {}",
    "metrics",
    "export {} --to {folder}",
)


def median_s(command: str, places: list[tuple[str, list[str]]], folder: Path) -> list[float]:
    """Of each place, in turns: another run each time, one half before and one behind all that were made up."""
    took: list[list[float]] = [[] for _ in places]
    for number in range(ROUNDS):
        for each, (url, real) in zip(took, places, strict=True):
            run_id = real[number * (len(real) - 1) // (ROUNDS - 1)]
            words = command.format(run_id, folder=folder / f"{number}-{len(took[0])}-{len(each)}-{id(each)}").split()
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "reenact", *words, "--store", url], check=True, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            each.append(time.perf_counter() - began)
    return [statistics.median(each) for each in took]


def main(runs: int) -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as name, Server(settings=SETTINGS) as server:
        folder = Path(name)
        os.environ["XDG_DATA_HOME"] = str(folder / "data")
        places = []
        for schema, count in (("small", SMALL), ("large", runs)):
            began = time.perf_counter()
            url = server.url(schema=schema)
            real = Large(url, count, REAL).real
            ((size,),) = server.execute(
                "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n "
                "ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'", schema, database="reenact",
            )  # fmt: skip
            print(f"{count:>12,} runs, {size >> 20:,} MiB, filled in {time.perf_counter() - began:.0f} s", flush=True)
            places.append((url, real))
        for command in COMMANDS:
            small, large = median_s(command, places, folder)
            failed += large > MOST * small
            verdict = "holds" if large <= MOST * small else "FAILS"
            print(
                f"{command:<24} {small * 1000:6.0f} ms {large * 1000:6.0f} ms  {large / small:.2f} ×  {verdict}",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else LARGE))
