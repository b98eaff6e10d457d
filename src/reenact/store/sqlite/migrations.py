"""Numbered .sql files: the first makes a store, each later one brings it from the schema before to its own.

A store of a newer schema is refused, and so is a database of something else.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from contextlib import closing
from functools import cache
from glob import escape
from importlib.resources import files
from pathlib import Path

from reenact.errors import StoreUnavailable, StoreVersionError
from reenact.store.private_file import sync_folder

APPLICATION_ID = 0x5265656E
"""By which a file says that it is a store."""
DRAFT = re.compile(r"\.schema-\d+\.backup\.\d+(-journal|-wal|-shm)?")
"""How the name of a backup in the making goes on behind that of the store."""
FIRST_TABLES = frozenset({"runs", "commits", "payloads", "traces", "idempotency", "seals"})
"""Which every store has had."""


@cache
def migrations() -> list[tuple[int, str]]:
    """(number, SQL), in order."""
    found = [
        (int(item.name[:4]), item.read_text(encoding="utf-8"))
        for item in files("reenact.store.sqlite").joinpath("sql").iterdir()
        if item.name.endswith(".sql")
    ]
    return sorted(found)


def latest() -> int:
    return migrations()[-1][0]


def version_of(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def is_marked(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)


def refuse_foreign(db: sqlite3.Connection, path: str) -> None:
    """StoreUnavailable for a database of something else. Nothing is written."""
    if is_marked(db):
        return
    db.execute("BEGIN")  # one look, while another process may be making the store
    try:
        mark, version = db.execute("PRAGMA application_id").fetchone()[0], version_of(db)
        names = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
    finally:
        db.execute("ROLLBACK")
    if mark == 0 and names >= FIRST_TABLES:  # of before a file said whose it is
        refuse_ancient(version, path)
    is_new = mark == version == 0 and not names
    if not (is_new or mark == APPLICATION_ID):
        raise StoreUnavailable(f"{path} is no store of reenact but another database; name another file with --store")


def migrate(db: sqlite3.Connection, path: str) -> None:
    """Bring the schema up to date in one transaction, after a backup when there is something to lose."""
    version, newest = version_of(db), latest()
    if version > newest:
        raise StoreVersionError(
            f"{path} has schema {version}, this version of reenact knows {newest}: upgrade reenact to use it"
        )
    if version == newest:
        return
    refuse_ancient(version, path)
    db.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(db)  # another process may have been faster
        if 0 < version < newest:
            refuse_other_tables(db, version, path)
            back_up(path, Path(f"{path}.schema-{version}.backup"))
        apply_scripts(db)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def apply_scripts(db: sqlite3.Connection, up_to: int | None = None) -> None:
    """Those that the schema has not seen yet."""
    version = version_of(db)
    for number, script in migrations():
        if number > version and (up_to is None or number <= up_to):
            for statement in statements(script):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number}")


def refuse_ancient(version: int, path: str) -> None:
    """Schemas before the first that was released are brought nowhere."""
    first = migrations()[0][0]
    if 0 < version < first:
        raise StoreVersionError(
            f"{path} has schema {version}, of before the first release, and this version of reenact reads {first} and "
            "later: keep the file for what it tells, and name another one with --store"
        )


def refuse_other_tables(db: sqlite3.Connection, version: int, path: str) -> None:
    """A file of the days when a schema was still changed under its number would be brought to one that fails later."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        apply_scripts(made, up_to=version)
        wanted = columns(made)
    there = columns(db)
    others = [name for name in sorted(wanted) if there.get(name) != wanted[name]]
    if others and version_of(db) == version:  # nobody brought it up to date meanwhile
        raise StoreVersionError(
            f"{path} says that it has schema {version}, but its table {others[0]} is another: it was made before the "
            "first release, or changed since, and cannot be brought up to date; keep the file, and name another one "
            "with --store"
        )


def columns(db: sqlite3.Connection) -> dict[str, list[str]]:
    """The columns of each table, in order."""
    names = [str(row[0]) for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: [row[1] for row in db.execute(f'PRAGMA table_info("{name}")')] for name in names}


def statements(script: str) -> list[str]:
    """Complete statements; a trigger's body holds semicolons, so sqlite decides where one ends."""
    found, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending)
            pending = ""
    return found


def sweep_drafts(path: str) -> None:
    """Copies that processes left which were killed: whoever migrates does so alone."""
    place = Path(path)
    for file in place.parent.glob(f"{escape(place.name)}.schema-*"):
        if DRAFT.fullmatch(file.name.removeprefix(place.name)):
            file.unlink(missing_ok=True)


def back_up(path: str, target: Path) -> None:
    """A whole copy, durable, readable by whoever may read the store, or none at all. Inside the one migration."""
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        sweep_drafts(path)
        os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, stat.S_IMODE(Path(path).stat().st_mode)))
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(fresh)) as copy:
            source.backup(copy)
        sync_folder(fresh)
        fresh.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise StoreUnavailable(f"the backup {target} cannot be written: {error.strerror}") from None
    finally:
        for rest in ("", "-journal", "-wal", "-shm"):
            Path(f"{fresh}{rest}").unlink(missing_ok=True)
