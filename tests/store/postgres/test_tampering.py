"""Whatever is changed or taken out of the evidence of a run in a database is found, as it is in a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from reenact import Runtime
from reenact.record.erase import erase
from reenact.store.checks.verification import verify_run
from reenact.store.keys.heads import MARKER
from reenact.store.open import open_store
from reenact.store.postgres.opened.shared import database_at as open_database
from reenact.store.postgres.opened.url import place_of
from tests.postgres.fixtures import Schemas
from tests.store.checks.store_file import PLAN, REGISTRY

TABLES = {
    "commits": ("run_no", "n"),
    "payloads": ("run_no", "n", "k"),
    "erasures": ("id",),
    "keys": ("kid",),
    "notes": ("id",),
    "runs": ("run_no",),
    "traces": ("run_no", "step_index"),
    "seals": ("id",),
    "idempotency": ("server", "tool", "key"),
    "contents": ("run_no", "content_key"),
}
"""Each table that is checked, and what a row of it is known by."""
UNCHECKED = {
    ("runs", "owner"), ("runs", "expires_ms"), ("runs", "cancel"), ("runs", "token"), ("notes", "id"),
    ("idempotency", "next"),
}  # fmt: skip
"""Who works on a run, and what he is asked; the order of notes; and what `mac` tells, which is checked."""


class Attacker:
    """Somebody who owns the tables: changes one cell, has the run verified, and puts it back."""

    def __init__(self, url: str) -> None:
        self.url = url
        runtime = Runtime(url, skills=REGISTRY)
        self.run_id = runtime.run(PLAN).run_id
        erase(runtime.store, self.run_id, "keyed", who="w", reason="r")
        place = place_of(url)
        ((self.last_note,),) = open_database(url).ask("SELECT max(id) FROM :schema.notes")
        runtime.run(PLAN)
        runtime.close()
        self.db = psycopg.connect(place.conninfo, autocommit=True, options=f"-csearch_path={place.schema}")
        for table in TABLES:
            self.db.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")  # type: ignore[arg-type]
        (self.run_no,) = self.db.execute("SELECT run_no FROM runs WHERE run_id = %s", (self.run_id,)).fetchone() or (0,)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Those of the run, or of the whole store where it is the store's."""
        cursor = self.db.execute(f"SELECT * FROM {table}")  # type: ignore[arg-type]
        names = [column.name for column in cursor.description or ()]
        found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        if table == "notes":  # those of another run are that run's, and without the marker all is vouched for anyway
            return [row for row in found if row["id"] <= self.last_note and row["schema"] != MARKER]
        return [row for row in found if row.get("run_no", self.run_no) == self.run_no]

    def set(self, table: str, row: dict[str, Any], column: str, value: object) -> None:
        names = TABLES[table]
        where = sql.SQL(" AND ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in names)
        text = sql.SQL("UPDATE {} SET {} = %s WHERE {}").format(sql.Identifier(table), sql.Identifier(column), where)
        changed = self.db.execute(text, (value, *(row[name] for name in names)))
        assert changed.rowcount == 1

    def remove(self, table: str, row: dict[str, Any]) -> None:
        where = sql.SQL(" AND ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in TABLES[table])
        text = sql.SQL("DELETE FROM {} WHERE {}").format(sql.Identifier(table), where)
        self.db.execute(text, tuple(row[name] for name in TABLES[table]))

    def put(self, table: str, row: dict[str, Any]) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, row))
        values = sql.SQL(", ").join(sql.Placeholder() * len(row))
        text = sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})")
        self.db.execute(text.format(sql.Identifier(table), names, values), tuple(row.values()))

    def is_found(self) -> bool:
        return verify_run(self.url, self.run_id).exit_code != 0


@pytest.fixture
def attacker(new_schema: Schemas) -> Iterator[Attacker]:
    with new_schema() as url:
        open_store(url).close()
        attacker = Attacker(url)
        assert not attacker.is_found()
        yield attacker
        attacker.db.close()


def other(value: object) -> object:
    """Of the same type."""
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1]) if value else b"x"
    return value + 1000 if isinstance(value, int) else f"{value or ''}x"


def test_every_changed_cell_is_found(attacker: Attacker) -> None:
    missed, count = [], 0
    for table, names in TABLES.items():
        for row in attacker.rows(table):
            for column, value in row.items():
                if column in names or (table, column) in UNCHECKED or (value is None and column == "record"):
                    continue
                attacker.set(table, row, column, other(value))
                count += 1
                if not attacker.is_found():
                    missed.append((table, column, [row[name] for name in names]))
                attacker.set(table, row, column, value)
    assert missed == []
    assert count > 100
    assert not attacker.is_found()


def test_every_removed_row_is_found(attacker: Attacker) -> None:
    missed, count = [], 0
    for table, names in TABLES.items():
        for row in attacker.rows(table):
            attacker.remove(table, row)
            count += 1
            if not attacker.is_found():
                missed.append((table, [row[name] for name in names]))
            attacker.put(table, row)
    assert missed == []
    assert count > 30
    assert not attacker.is_found()
