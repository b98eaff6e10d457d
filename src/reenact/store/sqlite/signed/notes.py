"""Rows of signed notes: written in the transaction of what they sign, never changed, never erased."""

from __future__ import annotations

import sqlite3

from reenact.store.keys.notes import Note
from reenact.store.sqlite.connection import Reads

COLUMNS = "schema, store_id, digest, kid, signature, record"


def write(db: sqlite3.Connection | sqlite3.Cursor, note: Note) -> None:
    """One note, in the transaction that the caller has begun."""
    db.execute(f"INSERT INTO notes ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", note)


def of_kind(reader: Reads, schema: str) -> list[Note]:
    """Those of one schema that hold their record, in the order of their writing."""
    rows = reader.query(f"SELECT {COLUMNS} FROM notes WHERE schema = ? AND record IS NOT NULL ORDER BY id", (schema,))
    return [Note(*row) for row in rows]


def of_kinds(reader: Reads, schemas: tuple[str, ...]) -> list[Note]:
    """Those of several schemas that hold their record, in the order of their writing."""
    wanted = ", ".join("?" * len(schemas))
    rows = reader.query(
        f"SELECT {COLUMNS} FROM notes WHERE schema IN ({wanted}) AND record IS NOT NULL ORDER BY id", schemas
    )
    return [Note(*row) for row in rows]


def about(reader: Reads, schema: str, digest: str) -> list[Note]:
    """Those that sign a record of this schema by its digest; a row with a cell that is none says nothing."""
    rows = reader.query(f"SELECT {COLUMNS} FROM notes WHERE digest = ? AND schema = ? ORDER BY id", (digest, schema))
    return [Note(*row) for row in rows if isinstance(row[2], str) and isinstance(row[3], str) and type(row[4]) is bytes]
