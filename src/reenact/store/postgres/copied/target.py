"""A schema that is the copy of another store: nobody can use it before it is whole."""

from __future__ import annotations

from collections.abc import Sequence

from reenact.errors import UsageError
from reenact.store.copying.tables import FILLING, Row, Table
from reenact.store.postgres.copied import rows as schema_rows
from reenact.store.postgres.copied.side import PostgresSide
from reenact.store.postgres.opened.database import Asks
from reenact.store.postgres.opened.partitions import RUNS_BITS
from reenact.store.postgres.opened.schema import is_there, make_tables

COUNTED = (
    "UPDATE :schema.counters c SET value = v.value FROM (VALUES "
    "('erasures', (SELECT coalesce(max(id), 0) FROM :schema.erasures)), "
    "('late_effects', (SELECT coalesce(max(id), 0) FROM :schema.late_effects)), "
    "('seals', (SELECT coalesce(max(id), 0) FROM :schema.seals))) v (name, value) WHERE c.name = v.name"
)
NUMBERED = "SELECT setval(':schema.run_numbers', greatest(max(run_no), 1), max(run_no) IS NOT NULL) FROM :schema.runs"
IDENTITIES = ("notes", "log_cosignatures", "log_timestamps", "log_contradictions")


class PostgresTarget(PostgresSide):
    """`reenact.store.copying.sides.Target`."""

    def begin(self, begun_as: str) -> None:
        schema = self.database.place.schema

        def act(db: Asks) -> None:
            if make_tables(db, schema):
                db.ask("INSERT INTO :schema.store VALUES (%s, %s)", (FILLING, begun_as))

        self.database.transact(act)
        begun = self.says(FILLING)
        if begun is None:
            raise UsageError(f"there is a store at {self.shown} already: a copy goes to a place where there is none")
        if begun != begun_as:
            raise UsageError(f"{self.shown} is the beginning of another copy: name another place")

    def says_whole(self, name: str) -> str | None:
        return self.says(name) if self.says(FILLING) is None else None

    def discard(self) -> None:
        if is_there(self.database) and self.says(FILLING) is not None:
            self.database.transact(lambda db: db.ask("DROP SCHEMA :schema CASCADE"))

    def last(self, table: Table) -> Row | None:
        return schema_rows.last(self.database, table)

    def write(self, table: Table, rows: Sequence[Row]) -> None:
        """Where nobody knows whether they were written, their last key tells."""

        def act(db: Asks) -> None:
            if table.key[0] == "run_no":
                for part in sorted({int(str(row[0])) >> RUNS_BITS for row in rows}):
                    db.ask("SELECT :schema.add_partitions(%s::bigint)", (part << RUNS_BITS,))
            if schema_rows.last(db, table) != table.key_of(rows[-1]):
                schema_rows.write(db, table, rows)

        self.database.transact(act)

    def finish(self) -> None:
        def act(db: Asks) -> None:
            db.ask(COUNTED)
            db.ask(NUMBERED)
            for name in IDENTITIES:
                db.ask(
                    f"SELECT setval(pg_get_serial_sequence(':schema.{name}', 'id'), greatest(max(id), 1), "
                    f"max(id) IS NOT NULL) FROM :schema.{name}"
                )
            db.ask("DELETE FROM :schema.store WHERE key = %s", (FILLING,))

        self.database.transact(act)
