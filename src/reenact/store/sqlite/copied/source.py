"""A store file that is copied elsewhere: nobody writes to it while it is, nor afterwards."""

from __future__ import annotations

import sqlite3

from reenact.contracts.records import ENDED
from reenact.store.copying.sides import Held
from reenact.store.copying.tables import MOVED, MOVING, moved_says
from reenact.store.owner import owner_is_gone
from reenact.store.sqlite.copied.guards import moved_guards
from reenact.store.sqlite.copied.side import SqliteSide
from reenact.values.clock import SystemClock

HOLDERS = f"SELECT run_id, owner, expires_ms FROM runs WHERE owner IS NOT NULL AND status NOT IN {ENDED}"


class SqliteSource(SqliteSide):
    """`reenact.store.copying.sides.Source`."""

    def freeze(self, to: str) -> list[Held]:
        """A lease that has lapsed, or whose holder is gone, is none: whoever had it is refused from here on."""
        now_ms = SystemClock().now_ms()
        with self.writer.transaction() as db:
            held = [
                Held(run_id, owner)
                for run_id, owner, expires_ms in db.execute(HOLDERS).fetchall()
                if expires_ms > now_ms and not owner_is_gone(owner)
            ]
            if not held:
                mark(db, MOVING, to)
        return held

    def thaw(self) -> None:
        with self.writer.transaction() as db:
            take_off(db)

    def retire(self, to: str) -> None:
        with self.writer.transaction() as db:
            mark(db, MOVED, to)


def mark(db: sqlite3.Connection, name: str, to: str) -> None:
    take_off(db)
    db.execute("INSERT INTO store VALUES (?, ?)", (name, to))
    for guard in moved_guards(moved_says({name: to}) or "").values():
        db.execute(guard)


def take_off(db: sqlite3.Connection) -> None:
    for name in moved_guards(""):
        db.execute(f"DROP TRIGGER IF EXISTS {name}")
    db.execute("DELETE FROM store WHERE key IN (?, ?)", (MOVING, MOVED))
