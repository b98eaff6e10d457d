"""A cell that holds what no column of its kind holds: the short form of `python -m tests.attacks.cells`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact.errors import DamagedRecord
from reenact.store.sqlite.connection import COLUMNS, MAY_BE_NULL, Connection
from tests.attacks.bank import Bank
from tests.attacks.cells import campaign
from tests.cli.harness import Command

KINDS = {"TEXT": str, "INTEGER": int, "BLOB": bytes}
OTHERWISE = {"mac", "frontier", "value", "result", "id"}
"""Compared as it is, of two kinds in two tables, or always a whole number."""


def test_no_cell_stops_a_command_or_another_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command ends with a documented exit code and one line; `recover` goes on with all other runs."""
    counted = campaign(slice(14), seed=1117)
    with capsys.disabled():
        print(f"\n{counted}")
    assert counted.wrong == []
    assert counted.cells >= 10


@pytest.mark.parametrize("commit", [1, 4])
def test_no_mac_of_a_session_stops_recovery(commit: int, tmp_path: Path) -> None:
    """It waits for a person, so that nobody goes on with it; what was recovered besides is told all the same."""
    bank = Bank(tmp_path)
    forged, approved = bank.session(), bank.approved()
    with closing(sqlite3.connect(bank.path, isolation_level=None)) as db:
        (other,) = db.execute("SELECT mac FROM commits ORDER BY id DESC LIMIT 1").fetchone()
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        place = "(SELECT run_no << 24 | ? FROM runs WHERE run_id = ?)"
        assert db.execute(f"UPDATE commits SET mac = ? WHERE id = {place}", (other, commit, forged)).rowcount == 1
    (tmp_path / "skills.py").write_text(SKILLS)
    done = Command(tmp_path)("recover", "--json", "--skills", str(tmp_path / "skills.py"))
    found = {row["run_id"]: row for row in done.json}
    assert (found[forged]["error_code"], found[approved]["error_code"]) == ("EVIDENCE_NOT_AUTHENTIC", None)


SKILLS = """
from reenact import skill


@skill("pay", version="1.0.0", tool_class="write")
def pay(payee: str, amount: int, rate: int) -> dict[str, str]:
    return {"paid": payee}


@skill("rate", version="1.0.0", tool_class="read", retry={"backoff_base_ms": 1})
def rate(currency: str) -> dict:
    return {"rate": 2, "currency": currency}
"""


def test_every_column_is_known(tmp_path: Path) -> None:
    """The guard: a column that a migration adds is checked where it is read, or named here."""
    connection = Connection(str(tmp_path / "store.db"))
    with closing(connection.db) as db:
        db.row_factory = None
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        declared = {
            (table, name): (kind, bool(not_null or place))
            for table in tables
            for _, name, kind, not_null, _, place in db.execute(f"PRAGMA table_info({table})")
        }
    for (table, name), (kind, is_needed) in declared.items():
        if name not in OTHERWISE and (table, name) != ("commits", "digest"):
            assert COLUMNS[name] is KINDS[kind], (table, name)
            assert is_needed or name in MAY_BE_NULL, (table, name)


def test_the_line_names_column_and_row(tmp_path: Path) -> None:
    connection = Connection(str(tmp_path / "store.db"))
    with connection.transaction() as db:
        db.execute("INSERT INTO traces VALUES (7, x'00', 's', 1)")
    with pytest.raises(DamagedRecord, match="id 7, trace_id: the cell is not a text; `reenact verify RUN`"):
        connection.query("SELECT id, trace_id FROM traces")
    with pytest.raises(DamagedRecord, match="leads nowhere"):
        connection.query("SELECT id FROM traces WHERE id = ?", (1 << 70,))
    with connection.transaction() as db:
        db.execute("UPDATE traces SET trace_id = CAST(x'ff' AS TEXT)")
    with pytest.raises(DamagedRecord, match="trace_id: the cell is not a text"):
        connection.query("SELECT id, trace_id FROM traces")
    with pytest.raises(sqlite3.ProgrammingError):
        connection.close()
        connection.db.execute("SELECT 1")
