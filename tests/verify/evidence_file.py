"""A store file whose evidence tables all hold rows, and every change that one hand can make to one of them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

import msgspec

from reenact.contracts.facts import Facts
from reenact.replay.runtime import Runtime
from reenact.runtime.call.doubt import Late, vouched
from reenact.store.base import PAYLOAD_BITS
from reenact.store.checks.verification import RunVerification, verify_run
from reenact.store.keys.keeping import rotate_key
from reenact.store.sqlite.store import SqliteStore
from tests.store.checks.store_file import COMMIT_BITS, REGISTRY, erase_step, kill_plan, query, run_plan
from tests.store.copies import copy_store

Change = tuple[str, tuple[object, ...]]
Kind = Literal["plan", "session", "open"]
TABLES = ("commits", "payloads", "erasures", "late_effects", "keys", "store")


class EvidenceFile:
    """A plan run that took over what a fenced-off executor left, a session, and a run without a seal; values of a
    fourth were erased, and the store has two keys."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.erased = run_plan(path)
        erase_step(path, self.erased, "keyed")
        self.plan = run_that_took_over(path)
        rotate_key(SqliteStore(str(path)), who="ops")
        self.session = run_session(path)
        self.open = kill_plan(path, "before_seal")
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def run_id(self, kind: str) -> str:
        return str(getattr(self, kind))

    def number(self, kind: str) -> int:
        return int(str(query(self.path, "SELECT run_no FROM runs WHERE run_id = ?", (self.run_id(kind),))[0][0]))


def run_that_took_over(path: Path) -> str:
    run_id = kill_plan(path, "after_dispatch")
    store = SqliteStore(str(path))
    trace_id = str(query(path, "SELECT trace_id FROM traces ORDER BY id DESC LIMIT 1")[0][0])
    ts = "2026-01-01T00:00:00.000Z"
    late = Late(
        trace_id=trace_id, attempt=0, facts=Facts(), started_at=ts, ended_at=ts, latency_ms=1, output={"said": "late"}
    )
    store.add_late_effect(run_id, vouched(store, run_id, trace_id, msgspec.to_builtins(late)))
    store.close()
    runtime = Runtime(str(path), skills=REGISTRY)
    assert runtime.resume(run_id).status == "completed"
    runtime.close()
    return run_id


def run_session(path: Path) -> str:
    async def loop(runtime: Runtime) -> str:
        async with runtime.session(agent_id="an-agent") as session:
            await asyncio.gather(*(session.call("talk", {"text": f"t{n}", "failures": n % 2}) for n in range(3)))
            await session.turn()
            await session.call("talk", {"text": "good bye"}, idempotency_key="key-2")
            session.finish(confidence=0.5)
        return session.run_id

    runtime = Runtime(str(path), skills=REGISTRY)
    try:
        return asyncio.run(loop(runtime))
    finally:
        runtime.close()


class Copy:
    """A copy of the file without its guards, made anew before each change."""

    def __init__(self, original: EvidenceFile, folder: Path) -> None:
        self._bare = folder / "bare.db"
        self.path = folder / "changed.db"
        copy_store(original.path, self._bare)
        with closing(sqlite3.connect(self._bare, isolation_level=None)) as db:
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                db.execute(f"DROP TRIGGER {name}")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def change(self, *changes: Change) -> bool:
        """False where the schema does not let the change be made."""
        copy_store(self._bare, self.path)
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = MEMORY")
            db.execute("PRAGMA synchronous = OFF")
            try:
                for sql, parameters in changes:
                    db.execute(sql, parameters)
            except (sqlite3.IntegrityError, OverflowError):
                return False
        return True

    def cell(self, row: Row, column: str) -> tuple[object, ...]:
        found = query(self.path, f"SELECT typeof({column}), hex({column}) FROM {row.table} WHERE {row.is_it}", row.key)
        return found[0] if found else ()

    def verify(self, run_id: str) -> RunVerification:
        return verify_run(str(self.path), run_id)


@dataclass(frozen=True)
class Row:
    """One row of an evidence table, and the run that is verified when it is changed."""

    table: str
    columns: tuple[str, ...]
    values: tuple[object, ...]
    run_id: str

    @property
    def is_it(self) -> str:
        return f"{self.columns[0]} = ?"

    @property
    def key(self) -> tuple[object, ...]:
        return self.values[:1]

    @property
    def number(self) -> int:
        return int(str(self.values[0]))

    @property
    def commit(self) -> int | None:
        """The commit that the row is, or that its payload came with."""
        return commit_of(self.table, self.values[0])


def commit_of(table: str, row_id: object) -> int | None:
    if table == "commits":
        return int(str(row_id)) % (1 << COMMIT_BITS)
    return (int(str(row_id)) >> PAYLOAD_BITS) % (1 << COMMIT_BITS) if table == "payloads" else None


def rows_of(original: EvidenceFile, kind: Kind, table: str) -> list[Row]:
    """The rows that belong to a run. Those of the whole store are looked at with the plan run."""
    columns = tuple(str(item[1]) for item in query(original.path, f"PRAGMA table_info({table})"))
    run_no = original.number(kind)
    bits = {"commits": COMMIT_BITS, "payloads": COMMIT_BITS + PAYLOAD_BITS}.get(table)
    condition = f"id >> {bits} = {run_no}" if bits else "true" if kind == "plan" else "false"
    found = query(original.path, f"SELECT * FROM {table} WHERE {condition} ORDER BY 1")
    return [Row(table, columns, values, original.run_id(kind)) for values in found]


def other_cells(value: object, random: Random) -> Iterator[tuple[str, object]]:
    """(what is done to it, the cell afterwards)."""
    if isinstance(value, int):
        yield from (("another number", value + step) for step in (1, -1, 1_000_003, 1 << 40))
        yield from (("another type", other) for other in (float(value) + 0.5, f"x{value}", str(value).encode(), None))
        yield "a flipped bit", value ^ 1 << random.randrange(50)
        return
    raw = value if isinstance(value, bytes) else str(value).encode()
    flipped = bytearray(raw)
    if raw:
        flipped[random.randrange(len(raw))] ^= 1 << random.randrange(8)
    same_type: list[tuple[str, bytes]] = [
        ("another value", bytes(byte ^ 1 for byte in raw) or b"0"),
        ("a flipped bit", bytes(flipped) if raw else b"1"),
        ("something appended", raw + b"0"),
        ("more appended", raw + random.randbytes(5000).replace(b"\0", b"1")),
        ("cut", raw[:-1] if raw else b"2"),
        ("emptied", b"" if raw else b"4"),
    ]
    for what, changed in same_type:
        yield what, changed if isinstance(value, bytes) else Text(changed)
    yield "another type", Text(raw) if isinstance(value, bytes) else raw
    yield "another type", Text(raw.hex().encode()) if isinstance(value, bytes) else raw.hex().encode()
    yield from (("another type", other) for other in (7, 7.5, None))


@dataclass(frozen=True)
class Text:
    """Bytes that are put into a cell as text, whether they are UTF-8 or not."""

    raw: bytes


def setting(row: Row, column: str, cell: object) -> Change:
    if isinstance(cell, Text):
        return f"UPDATE {row.table} SET {column} = CAST(? AS TEXT) WHERE {row.is_it}", (cell.raw, *row.key)
    return f"UPDATE {row.table} SET {column} = ? WHERE {row.is_it}", (cell, *row.key)


def row_changes(row: Row, rows: list[Row]) -> Iterator[tuple[str, list[Change], set[int | None]]]:
    """(what is done, how, the commits where that may show)."""
    here, others = row.commit, ", ".join(row.columns[1:])
    yield "deleted", [(f"DELETE FROM {row.table} WHERE {row.is_it}", row.key)], {here}
    for new_id in twins(row, rows):
        copy = f"INSERT INTO {row.table} SELECT ?, {others} FROM {row.table} WHERE {row.is_it}"
        yield "duplicated", [(copy, (new_id, *row.key))], {here, commit_of(row.table, new_id)}
    for other in rows:
        # Far apart in the journal there is nothing that nearer ones would not show.
        if row.values[0] == other.values[0] or not near(row, other):
            continue
        columns = row.columns[1:]
        put = f"UPDATE {row.table} SET {', '.join(f'{column} = ?' for column in columns)} WHERE {row.is_it}"
        swap = [(put, (*other.values[1:], *row.key)), (put, (*row.values[1:], *other.key))]
        yield "swapped", swap, {here, other.commit}


def near(row: Row, other: Row) -> bool:
    if row.commit is None or other.commit is None:
        return True
    return 0 <= other.commit - row.commit <= (1 if row.table == "commits" else 0)


def twins(row: Row, rows: list[Row]) -> Iterator[object]:
    if not isinstance(row.values[0], int):
        yield f"{row.values[0]}2"
        return
    last = max(other.number for other in rows if other.commit == row.commit)
    yield from (row.number + 1000, rows[-1].number + 1, last + 1)
    if row.table == "payloads":
        yield rows[-1].number + (1 << PAYLOAD_BITS)
