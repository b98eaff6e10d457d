"""The page about the store names every table, and the triggers are those that it says."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from tests.store.checks.store_file import StoreFile, query

LOG = {"log_checkpoints", "log_cosignatures", "log_timestamps", "log_contradictions"}


def page(root: Path) -> str:
    return (root / "docs" / "spec" / "store_sqlite.md").read_text(encoding="utf-8")


def test_every_table_is_said_to_be_evidence_or_not(root: Path, original: StoreFile) -> None:
    tables = {str(row[0]) for row in query(original.path, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    section = page(root).partition("## Which tables are which")[2].partition("\n## ")[0]
    told = [
        name for row in re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    ]
    assert sorted(told) == sorted(tables)


def test_evidence_cannot_be_changed_by_accident(root: Path, original: StoreFile, tmp_path: Path) -> None:
    section = page(root).partition("## Which tables are which")[2]
    evidence = re.findall(r"^\| `(\w+)` \| \*\*evidence\*\*", section, re.MULTILINE)
    assert set(evidence) == {"commits", "payloads", "erasures", "keys", "late_effects", "notes", *LOG}
    db = sqlite3.connect(original.copy(tmp_path / "copy.db"))
    db.execute("INSERT INTO late_effects (run_no, trace_id, body) VALUES (1, 't', x'00')")
    db.execute("INSERT INTO log_cosignatures (size, witness, line) VALUES (1, 'w', x'00')")
    db.execute("INSERT INTO log_timestamps (size, place, stamp) VALUES (1, 't', x'00')")
    db.execute("INSERT INTO log_contradictions (source, note) VALUES ('w', x'00')")
    for table in evidence:
        statements = [f"UPDATE {table} SET {column} = {column}" for column in columns(db, table)]
        if table != "payloads":
            statements.append(f"DELETE FROM {table}")
        for statement in statements:
            try:
                db.execute(statement)
            except sqlite3.IntegrityError:
                continue
            raise AssertionError(statement)
    db.close()


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in db.execute(f"PRAGMA table_info({table})")]


def test_every_finding_of_the_page_is_one_that_the_code_makes(root: Path) -> None:
    codes = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", page(root)))
    sources = (root / "src" / "reenact").rglob("*.py")
    made = {code for path in sources for code in re.findall(r'"([A-Z]+_[A-Z_]+)"', path.read_text(encoding="utf-8"))}
    assert codes - {"DELETE", "UPDATE"} <= made
    assert codes
