"""Fifty runs at once: what it is worth to commit them together, and what a row per commit and run is worth.

The layout is held against the one that suggests itself: a table per kind of record, its rows as they are, with the
indexes that reading a run needs. Both store the same lines of the same steps, in transactions of the same steps.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.figure import Figure, race, seconds
from benchmarks.plan import check
from benchmarks.plans import plan, runtime, workplace
from reenact.runtime.writing.committer import Committer, Done
from reenact.runtime.writing.writer_thread import Act, Append
from reenact.store.base import PAYLOAD_BITS
from reenact.store.compression import Codec

RUNS = 50
LEAST_TOGETHER = 1.2
LEAST_FOR_LAYOUT = 1.15

COMMIT = "INSERT INTO commits VALUES (?, ?, ?)"
ENTRY = "INSERT INTO entries (trace, digest, sequence, body) VALUES (?, ?, ?, ?)"
ARTIFACT = "INSERT INTO artifacts VALUES (?, ?, ?)"
ATTEMPT = "INSERT INTO attempts VALUES (?, ?, ?)"


class Step(NamedTuple):
    """One commit as it is written: its body, and the values that came with it."""

    body: bytes
    payloads: tuple[tuple[bytes, bytes], ...]


def measure(runs: int = RUNS, steps: int = 20, rounds: int = 5) -> list[Figure]:
    with workplace() as folder:
        times = race(
            [
                lambda: runs_at_once(fresh(folder), runs, steps, together=False),
                lambda: runs_at_once(fresh(folder), runs, steps, together=True),
            ],
            rounds,
        )
        recorded = recorded_steps(folder / "recorded.db", runs * 2)
        layouts = race(
            [
                lambda: table_per_kind(fresh(folder), recorded, runs),
                lambda: row_per_commit(fresh(folder), recorded, runs),
            ],
            rounds,
        )
    alone, together = (times.best(side) / (runs * steps) * 1e6 for side in range(2))
    return [
        Figure(
            name=f"{runs} runs in flight, beside a commit for each step",
            value=times.ratio(0, 1),
            least=LEAST_TOGETHER,
            note=f"{together:.0f} and {alone:.0f} µs a step; median {times.median_ratio(0, 1):.2f}",
        ),
        Figure(
            name=f"layout for {runs} runs in flight, beside a table per kind",
            value=layouts.ratio(0, 1),
            least=LEAST_FOR_LAYOUT,
            note=f"one transaction of {runs} steps; median {layouts.median_ratio(0, 1):.2f}",
        ),
    ]


def fresh(folder: Path) -> Path:
    """A store that nobody has used yet."""
    return folder / f"store-{len(list(folder.glob('store-*.db')))}.db"


def runs_at_once(path: Path, runs: int, steps: int, *, together: bool) -> float:
    """Runs whose skill waits a little, as for a service: while one waits the others go on."""
    with runtime(path) as opened:
        if not together:
            opened.committer = EachAlone(opened.store)
        documents = [plan(steps, "note_after_a_while") for _ in range(runs)]

        async def all_of_them() -> None:
            for result in await asyncio.gather(*(opened.run_async(document) for document in documents)):
                check(result.status == "completed")

        return seconds(lambda: asyncio.run(all_of_them()))


class EachAlone(Committer):
    """What the committer would be without group commit."""

    async def commit(self, work: Append | Act) -> Done:
        return Done(self._store.append(work[0], work[1], owner=work[2]) if isinstance(work, tuple) else work())


def recorded_steps(path: Path, steps: int) -> list[Step]:
    with runtime(path) as opened:
        check(opened.run(plan(steps + 1)).ok)
    db, codec = sqlite3.connect(path), Codec()
    payloads: dict[int, list[tuple[bytes, bytes]]] = {}
    for payload_id, commitment, stored in db.execute("SELECT id, commitment, body FROM payloads ORDER BY id"):
        payloads.setdefault(payload_id >> PAYLOAD_BITS, []).append((commitment, codec.unpack(stored)))
    found = [
        Step(codec.unpack(body), tuple(payloads.get(commit_id, ())))
        for commit_id, body in db.execute("SELECT id, body FROM commits ORDER BY id")
    ]
    db.close()
    return found[1 : steps + 1]


def transactions(path: Path, schema: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.executescript(schema)
    return db


def groups(steps: list[Step], size: int, times: int = 40) -> Iterator[list[tuple[int, Step]]]:
    """Transactions with one step of each run, over and over; a step is told from others by its number."""
    for number in range(times):
        yield [(number * size + at, steps[(number * size + at) % len(steps)]) for at in range(size)]


def row_per_commit(path: Path, steps: list[Step], size: int) -> float:
    """As the store does it: packing and digests count too."""
    db = transactions(
        path,
        "CREATE TABLE commits (id INTEGER PRIMARY KEY, body BLOB NOT NULL, digest BLOB NOT NULL);"
        "CREATE TABLE payloads (id INTEGER PRIMARY KEY, commitment BLOB NOT NULL, body BLOB NOT NULL);"
        "CREATE TABLE traces (id INTEGER PRIMARY KEY, trace_id TEXT NOT NULL, step_id TEXT NOT NULL, n INTEGER);",
    )
    codec = Codec()

    def write() -> None:
        for group in groups(steps, size):
            db.execute("BEGIN IMMEDIATE")
            for number, step in group:
                commit_id = (number % size + 1) << 24 | number // size + 1
                packed = (commit_id, codec.pack_body(step.body), sha256(step.body).digest())
                db.execute("INSERT INTO commits VALUES (?, ?, ?)", packed)
                rows = [
                    (commit_id << PAYLOAD_BITS | k, commitment, codec.pack_envelope(envelope))
                    for k, (commitment, envelope) in enumerate(step.payloads)
                ]
                db.executemany("INSERT INTO payloads VALUES (?, ?, ?)", rows)
                trace = (commit_id, "01890a5d-ac96-774b-bcce-b302099a8057", "step", number)
                db.execute("INSERT INTO traces VALUES (?, ?, ?, ?)", trace)
            db.execute("COMMIT")

    took = seconds(write)
    db.close()
    return took


def table_per_kind(path: Path, steps: list[Step], size: int) -> float:
    """Entries, artifacts, attempts, payloads and commits each in a table, found by trace, run and commitment."""
    db = transactions(
        path,
        "CREATE TABLE commits (run TEXT, n INTEGER, prev TEXT, PRIMARY KEY (run, n)) WITHOUT ROWID;"
        "CREATE TABLE entries (digest TEXT, trace TEXT, sequence INTEGER, body TEXT, PRIMARY KEY (trace, sequence));"
        "CREATE TABLE artifacts (digest TEXT PRIMARY KEY, kind TEXT, body TEXT);"
        "CREATE TABLE attempts (trace TEXT, ordinal INTEGER, body TEXT, PRIMARY KEY (trace, ordinal));"
        "CREATE TABLE payloads (commitment BLOB PRIMARY KEY, body BLOB);",
    )
    records = {step.body: list(rows_of(step.body)) for step in steps}

    def write() -> None:
        for group in groups(steps, size):
            db.execute("BEGIN IMMEDIATE")
            for number, step in group:
                unique = f"{number:08x}"  # the same steps are written many times; their ids must differ
                for statement, key, values in records[step.body]:
                    db.execute(statement, (key + unique, *values))
                rows = [(commitment + unique.encode(), envelope) for commitment, envelope in step.payloads]
                db.executemany("INSERT INTO payloads VALUES (?, ?)", rows)
            db.execute("COMMIT")

    took = seconds(write)
    db.close()
    return took


def rows_of(body: bytes) -> Iterator[tuple[str, str, tuple[object, ...]]]:
    """(statement, first column, the others) for each record of a commit; encoded beforehand, as a body is."""
    encode = msgspec.json.encode
    for line in map(msgspec.json.decode, body.splitlines()):
        if line["kind"] == "commit":
            yield COMMIT, line["run_id"], (line["n"], line["prev"])
        elif line["kind"] == "attempt":
            attempt = line["attempt"]
            yield ATTEMPT, attempt["trace_id"], (attempt["ordinal"], encode(attempt))
        else:
            entry, artifact = line["entry"], line["artifact"]
            yield ARTIFACT, artifact["_digest"], (entry["artifact_type"], encode(artifact))
            yield ENTRY, entry["trace_id"], (entry["entry_digest"], entry["sequence_number"], encode(entry))
