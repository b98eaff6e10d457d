"""What a program that means no harm can do to the rows of evidence by accident: nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reenact.store.base import LateEffect
from reenact.store.sqlite.store import SqliteStore
from tests.store.checks.store_file import erase_step, run_plan

EVIDENCE = ("commits", "payloads", "erasures", "late_effects", "keys", "notes")
CONTENT = {
    "commits": "body = x'00'",
    "payloads": "body = x'00'",
    "erasures": "body = x'00'",
    "late_effects": "body = x'00'",
    "keys": "public_key = 'another'",
    "notes": "kid = 'another'",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guards") / "store.db"
    run_id = run_plan(path)
    erase_step(path, run_id, "keyed")
    store = SqliteStore(str(path))
    store.add_late_effect(run_id, LateEffect("a-trace", b"{}"))
    store.close()
    return path


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        yield connection
        connection.execute("ROLLBACK")


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in db.execute(f"PRAGMA table_info({table})")]


def insert_of_a_changed_row(db: sqlite3.Connection, table: str, verb: str, identity: str) -> str:
    """The statement that writes the table's first row once more, with another content."""
    changed, _, value = CONTENT[table].partition(" = ")
    first, *others = columns(db, table)
    selected = [identity, *(value if column == changed else column for column in others)]
    return f"{verb} INTO {table} ({', '.join([first, *others])}) SELECT {', '.join(selected)} FROM {table} LIMIT 1"


@pytest.mark.parametrize("table", EVIDENCE)
@pytest.mark.parametrize("verb", ["INSERT OR REPLACE", "REPLACE", "INSERT OR ABORT"])
def test_no_row_of_evidence_is_put_in_the_place_of_another(db: sqlite3.Connection, table: str, verb: str) -> None:
    before = db.execute(f"SELECT * FROM {table}").fetchall()
    assert before
    identity = columns(db, table)[0]
    with pytest.raises(sqlite3.IntegrityError, match=r"append-only|never changed"):
        db.execute(insert_of_a_changed_row(db, table, verb, identity))
    assert db.execute(f"SELECT * FROM {table}").fetchall() == before


@pytest.mark.parametrize("table", [table for table in EVIDENCE if table != "keys"])
@pytest.mark.parametrize("identity", ["CAST(id AS TEXT)", "CAST(id AS REAL)"])
def test_a_row_number_of_another_type_replaces_nothing_either(
    db: sqlite3.Connection, table: str, identity: str
) -> None:
    before = db.execute(f"SELECT * FROM {table}").fetchall()
    with pytest.raises(sqlite3.IntegrityError):
        db.execute(insert_of_a_changed_row(db, table, "INSERT OR REPLACE", identity))
    assert db.execute(f"SELECT * FROM {table}").fetchall() == before


@pytest.mark.parametrize("table", EVIDENCE)
def test_a_row_of_evidence_is_not_changed_by_inserting_it_again(db: sqlite3.Connection, table: str) -> None:
    first = columns(db, table)[0]
    statement = insert_of_a_changed_row(db, table, "INSERT", first).replace(" LIMIT 1", " WHERE true")
    with pytest.raises(sqlite3.IntegrityError):
        db.execute(f"{statement} ON CONFLICT ({first}) DO UPDATE SET {CONTENT[table]}")


def test_a_key_that_two_processes_write_at_once_is_written_once(db: sqlite3.Connection) -> None:
    rows = db.execute("SELECT kid, public_key FROM keys").fetchall()
    db.executemany("INSERT OR IGNORE INTO keys VALUES (?, ?)", rows)
    assert db.execute("SELECT kid, public_key FROM keys").fetchall() == rows
