"""What the runs up to a seal add up to, as whoever counted them left it."""

from __future__ import annotations

from reenact.store.base import Tally
from reenact.store.sqlite.connection import Connection, Reads


def tally(reader: Reads, name: str) -> Tally | None:
    rows = reader.query("SELECT sealed, sums FROM tallies WHERE name = ?", (name,))
    return Tally(*rows[0]) if rows else None


def keep(writer: Connection, name: str, kept: Tally) -> bool:
    with writer.transaction() as db:
        done = db.execute(
            "INSERT INTO tallies VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
            "SET sealed = excluded.sealed, sums = excluded.sums WHERE sealed < excluded.sealed",
            (name, kept.sealed, kept.sums),
        )
        return done.rowcount > 0
