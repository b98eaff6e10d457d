"""Rows of signed notes: written in the transaction of what they sign, never changed, never erased."""

from __future__ import annotations

from reenact.store.keys.notes import Note
from reenact.store.postgres.opened.database import Asks

COLUMNS = "schema, store_id, digest, kid, signature, record"


def write(db: Asks, note: Note) -> None:
    """One note, in the transaction that the caller has begun."""
    db.ask(f"INSERT INTO :schema.notes ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s)", note)


def of_kinds(db: Asks, schemas: tuple[str, ...]) -> list[Note]:
    """Those of several schemas that hold their record, in the order of their writing."""
    sql = f"SELECT {COLUMNS} FROM :schema.notes WHERE schema = ANY(%s) AND record IS NOT NULL ORDER BY id"
    return [Note(*row) for row in db.ask(sql, (list(schemas),))]


def about(db: Asks, schema: str, digest: str) -> list[Note]:
    """Those that sign a record of this schema by its digest."""
    sql = f"SELECT {COLUMNS} FROM :schema.notes WHERE digest = %s AND schema = %s ORDER BY id"
    return [Note(*row) for row in db.ask(sql, (digest, schema))]
