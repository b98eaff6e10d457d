"""A store in a database that is copied elsewhere: nobody writes to it while it is, nor afterwards."""

from __future__ import annotations

from reenact.contracts.records import ENDED
from reenact.store.copying.sides import Held
from reenact.store.copying.tables import MOVED, MOVING, TABLES, moved_says
from reenact.store.owner import owner_is_gone
from reenact.store.postgres.copied.guards import guard_name, moved_guards
from reenact.store.postgres.copied.side import PostgresSide
from reenact.store.postgres.opened.database import Asks

HOLDERS = (
    f"SELECT run_id, owner FROM :schema.runs WHERE owner IS NOT NULL AND status NOT IN {ENDED} "
    "AND expires_ms > :schema.now_ms()"
)


class PostgresSource(PostgresSide):
    """`reenact.store.copying.sides.Source`."""

    def freeze(self, to: str) -> list[Held]:
        """A lease that has lapsed, or whose holder is gone, is none: whoever had it is refused from here on."""

        def act(db: Asks) -> list[Held]:
            db.ask("LOCK TABLE :schema.runs IN SHARE ROW EXCLUSIVE MODE")
            held = [Held(*row) for row in db.ask(HOLDERS) if not owner_is_gone(row[1])]
            if not held:
                mark(db, MOVING, to)
            return held

        return self.database.transact(act)

    def thaw(self) -> None:
        self.database.transact(take_off)

    def retire(self, to: str) -> None:
        self.database.transact(lambda db: mark(db, MOVED, to))


def mark(db: Asks, name: str, to: str) -> None:
    take_off(db)
    db.ask("INSERT INTO :schema.store VALUES (%s, %s)", (name, to))
    db.ask(moved_guards(moved_says({name: to}) or ""))


def take_off(db: Asks) -> None:
    db.ask("; ".join(f"DROP TRIGGER IF EXISTS {guard_name(each)} ON :schema.{each.name}" for each in TABLES))
    db.ask("DELETE FROM :schema.store WHERE key = ANY(%s)", ([MOVING, MOVED],))
