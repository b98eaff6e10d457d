"""The rows of a store file as a copy has them, and back: where several numbers lie in one, they are taken apart."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from reenact.errors import DamagedRecord, StoreUnavailable
from reenact.store.copying.tables import OWN, Row, Table
from reenact.store.deltas import base_of, moved_base

MOST_RUNS: Final = 1 << 27
"""A file numbers fewer: run, commit and place of an envelope lie in one number of 63 bits."""


class Laid(NamedTuple):
    """How the rows of a table lie in a file."""

    reads: str
    """The expressions of its columns."""
    order: str
    after: str
    """What holds of the rows behind the key ?1, ?2, …"""
    writes: str
    """The columns that are written."""
    cells: str
    """What is written there of ?1, ?2, …"""


PLACE: Final = "{0} >> 36, ({0} >> 12) & 16777215, {0} & 4095"
NUMBER: Final = "((?1 << 24 | ?{0}) << 12 | ?{1})"
WITHIN: Final = "id >> 24, id & 16777215"
BEHIND: Final = "id > (?1 << 24 | ?2)"
LAID: Final[dict[str, Laid]] = {
    "commits": Laid(f"{WITHIN}, body, digest, mac", "id", BEHIND, "id, body, digest, mac", "?1 << 24 | ?2, ?3, ?4, ?5"),
    "payloads": Laid(
        f"{PLACE.format('id')}, commitment, body",
        "id",
        f"id > {NUMBER.format(2, 3)}",
        "id, commitment, body",
        f"{NUMBER.format(2, 3)}, ?4, ?5",
    ),
    "traces": Laid(
        f"{WITHIN}, trace_id, step_id, commit_n",
        "id",
        BEHIND,
        "id, trace_id, step_id, commit_n",
        "?1 << 24 | ?2, ?3, ?4, ?5",
    ),
    "contents": Laid(
        "run_no, content_key, (payload_id >> 12) & 16777215, payload_id & 4095, commitment",
        "run_no, content_key",
        "(run_no, content_key) > (?1, ?2)",
        "run_no, content_key, payload_id, commitment",
        f"?1, ?2, {NUMBER.format(3, 4)}, ?5",
    ),
    "shared_payloads": Laid(
        "run_no, commitment, (payload_id >> 12) & 16777215, payload_id & 4095",
        "run_no, commitment",
        "(run_no, commitment) > (?1, ?2)",
        "run_no, commitment, payload_id",
        f"?1, ?2, {NUMBER.format(3, 4)}",
    ),
    "run_checkpoints": Laid(f"{WITHIN}, frontier, mac", "id", BEHIND, "id, frontier, mac", "?1 << 24 | ?2, ?3, ?4"),
    "archived": Laid(
        f"{PLACE.format('payload_id')}, commitment, bundle",
        "payload_id",
        f"payload_id > {NUMBER.format(2, 3)}",
        "payload_id, commitment, bundle",
        f"{NUMBER.format(2, 3)}, ?4, ?5",
    ),
    "log_nodes": Laid(
        "id >> 48, id & 281474976710655, hash", "id", "id > (?1 << 48 | ?2)", "id, hash", "?1 << 48 | ?2, ?3"
    ),
}
FREE: Final = "owner, expires_ms"
"""Columns of a run that a copy has anew: nobody holds it."""


def laid(table: Table) -> Laid:
    if table.name in LAID:
        return LAID[table.name]
    columns, key = ", ".join(table.columns), ", ".join(table.key)
    places = ", ".join(f"?{number}" for number in range(1, len(table.columns) + 1))
    after = f"({key}) > ({', '.join(f'?{number}' for number in range(1, len(table.key) + 1))})"
    if table.name == "runs":
        return Laid(columns, key, after, f"{columns}, {FREE}", f"{places}, NULL, 0")
    return Laid(columns, key, after, columns, places)


def count(db: sqlite3.Connection, table: Table) -> int:
    if table.name == "store":
        return sum(row[0] not in OWN for row in rows(db, table, None))
    return int(db.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0])


def rows(db: sqlite3.Connection, table: Table, after: Row | None) -> Generator[Row, None, None]:
    how = laid(table)
    where = "" if after is None else f"WHERE {how.after}"
    with closing(db.cursor()) as cursor:
        behind = by_number(after or ())
        found = cursor.execute(f"SELECT {how.reads} FROM {table.name} {where} ORDER BY {how.order}", behind)
        yield from map(within_run, found) if table.name == "payloads" else found


def within_run(row: Row) -> Row:
    """An envelope names what it builds on by its number in the file, and in a copy by its place within the run."""
    run_no, stored = int(str(row[0])), row[4]
    assert isinstance(stored, bytes)
    base = base_of(stored)
    if base is not None and base >> 36 != run_no:
        raise DamagedRecord(f"payloads: a value of run number {run_no} builds on one of another run")
    return (*row[:4], moved_base(stored, -(run_no << 36)))


def in_file(row: Row) -> tuple[bytes, int]:
    assert isinstance(row[4], bytes)
    return row[4], int(str(row[0])) << 36


def last(db: sqlite3.Connection, table: Table) -> Row | None:
    how = laid(table)
    only = f"WHERE key NOT IN ({', '.join('?' for _ in OWN)})" if table.name == "store" else ""
    order = ", ".join(f"{column} DESC" for column in how.order.split(", "))
    row = db.execute(
        f"SELECT {how.reads} FROM {table.name} {only} ORDER BY {order} LIMIT 1", OWN if only else ()
    ).fetchone()
    return None if row is None else table.key_of(row)


def write(db: sqlite3.Connection, table: Table, batch: Sequence[Row]) -> None:
    """Within a transaction."""
    if "run_no" in table.key[:1] and any(isinstance(row[0], int) and row[0] >= MOST_RUNS for row in batch):
        raise StoreUnavailable(f"a store in a file numbers fewer than {MOST_RUNS:,} runs, and this one has more")
    how = laid(table)
    if table.name == "payloads":
        batch = [(*row[:4], moved_base(*in_file(row))) for row in batch]
    db.executemany(f"INSERT INTO {table.name} ({how.writes}) VALUES ({how.cells})", map(by_number, batch))


def by_number(row: Row) -> dict[str, object]:
    """As ?1, ?2, … are bound: they are names, and Python 3.14 takes no sequence for them."""
    return {str(number): cell for number, cell in enumerate(row, 1)}


def says(db: sqlite3.Connection, name: str) -> str | None:
    found = db.execute("SELECT value FROM store WHERE key = ?", (name,)).fetchone()
    return None if found is None else str(found[0])
