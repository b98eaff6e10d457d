"""Numbered .sql files bring a database from any earlier schema to this one; a newer one is refused."""

from __future__ import annotations

import sqlite3
from importlib.resources import files
from pathlib import Path

from reenact.errors import StoreVersionError


def migrations() -> list[tuple[int, str]]:
    """(number, SQL), in order."""
    found = [
        (int(item.name[:4]), item.read_text(encoding="utf-8"))
        for item in files("reenact.store").joinpath("sql").iterdir()
        if item.name.endswith(".sql")
    ]
    return sorted(found)


def latest() -> int:
    return migrations()[-1][0]


def migrate(db: sqlite3.Connection, path: str) -> None:
    """Bring the schema up to date, one transaction each, after a backup when there is something to lose."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    newest = latest()
    if version > newest:
        raise StoreVersionError(
            f"{path} has schema {version}, this version of reenact knows {newest}: upgrade reenact to use it"
        )
    if version == newest:
        return
    if 0 < version < newest:
        back_up(db, Path(f"{path}.schema-{version}.backup"))
    for number, script in migrations():
        if number > version:
            apply(db, number, script)


def apply(db: sqlite3.Connection, number: int, script: str) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been faster.
        if int(db.execute("PRAGMA user_version").fetchone()[0]) < number:
            for statement in statements(script):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def statements(script: str) -> list[str]:
    """Complete statements; a trigger's body holds semicolons, so sqlite decides where one ends."""
    found, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending)
            pending = ""
    return found


def back_up(db: sqlite3.Connection, target: Path) -> None:
    with sqlite3.connect(target) as copy:
        db.backup(copy)
