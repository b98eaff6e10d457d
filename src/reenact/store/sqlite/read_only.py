"""A store that is only read: opened the usual way, and where nothing can be written, without writing anything.

An auditor gets evidence in folders and on media that are read-only. SQLite reads a file in WAL mode only where it may
keep an index of the log beside it, unless it is told that the file does not change. That is said only where the log
holds nothing, and looked after while reading.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from pathlib import Path
from typing import Any

from reenact.errors import ChecksumMismatch, StoreUnavailable, StoreVersionError, TooManyFiles
from reenact.store.naming import part, read_lines
from reenact.store.sqlite.connection import Connection
from reenact.store.sqlite.migrations import (
    apply_scripts,
    latest,
    refuse_ancient,
    refuse_foreign,
    refuse_other_tables,
    version_of,
)
from reenact.store.sqlite.opened.files import refuse_folder, refuse_lone_log, refuse_taken_log, size_of
from reenact.store.sqlite.schema import Alteration, alterations
from reenact.store.sqlite.trouble.database_errors import DATABASE_ERRORS, translate
from reenact.store.sqlite.trouble.forks import FORKS
from reenact.store.sqlite.trouble.waiting import LOOK_S, Patience

LARGEST_IN_MEMORY = 64_000_000
UNWRITABLE = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")


class StillConnection(Connection):
    """Of a file that SQLite was told does not change."""

    def __init__(self, path: str, db: sqlite3.Connection) -> None:
        super().__init__(path, db)
        self._seen = looks(path)

    def query(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        rows = super().query(sql, parameters)
        if looks(self.path) != self._seen:
            raise StoreUnavailable(f"{self.path} was written to while it was read; read a copy of it")
        return rows


@FORKS.inside()
def open_to_read(path: str) -> Connection:
    """A connection that may or may not be able to write; what tries to write with it says so."""
    try:
        return Connection(path)
    except StoreUnavailable as refused:
        if not concerns_writing(refused.__cause__):
            raise
    db, is_still = open_read_only(path)
    try:
        refuse_other_schema(db, path)
    except DATABASE_ERRORS as error:
        db.close()
        raise translate(error, path) from error
    except BaseException:
        db.close()
        raise
    return StillConnection(path, db) if is_still else Connection(path, db)


@FORKS.inside()
def open_untouched(path: str) -> tuple[Connection, tuple[Alteration, ...]]:
    """A connection with which nothing can be written, whoever may; and what is not as reenact made it.

    No migration, no trigger and no view of the file runs: a store of an earlier schema is copied, and the copy brought
    up to date.
    """
    refuse_folder(path)
    refuse_lone_log(path)
    refuse_taken_log(path)
    db, is_still = open_read_only(path)
    try:
        db.execute("PRAGMA query_only = ON")
        db.execute("PRAGMA trusted_schema = OFF")
        version = refuse_unreadable(db, path)
        altered = tuple(alterations(db, version))
        if version < latest():
            refuse_altered(altered, path, version)
            db, is_still = brought_up_to_date(db, path), False
    except DATABASE_ERRORS as error:
        db.close()
        raise translate(error, path) from error
    except BaseException:
        db.close()
        raise
    return StillConnection(path, db) if is_still else Connection(path, db), altered


def refuse_altered(altered: tuple[Alteration, ...], path: str, version: int) -> None:
    changed = next((alteration for alteration in altered if alteration.found is not None), None)
    if changed is not None or any(alteration.is_of_table for alteration in altered):
        what = altered[0].says if changed is None else changed.says
        raise ChecksumMismatch(f"{path} has schema {version}, and is not as reenact made it: {what}")


def brought_up_to_date(db: sqlite3.Connection, path: str) -> sqlite3.Connection:
    """A copy in memory, or in a file without a name where it is large."""
    copy = sqlite3.connect(
        ":memory:" if size_of(path) < LARGEST_IN_MEMORY else "", isolation_level=None, check_same_thread=False
    )
    try:
        db.backup(copy)
        apply_scripts(copy)
    except BaseException:
        copy.close()
        raise
    db.close()
    return copy


def open_read_only(path: str) -> tuple[sqlite3.Connection, bool]:
    """(the database, whether it was opened as a file that does not change); nothing is written or made."""
    try:
        return probed(path, "mode=ro"), False
    except DATABASE_ERRORS as error:
        told = translate(error, path)
        if not concerns_writing(error) or isinstance(told, TooManyFiles):
            raise told from error
    if log_size(path) > 0:
        raise StoreUnavailable(
            f"{path}-wal holds commits that {path} does not have yet, and nothing can be written beside it: copy both "
            "into a folder that can be written, and name the copy with --store"
        )
    try:
        return probed(path, "mode=ro&immutable=1"), True
    except DATABASE_ERRORS as error:
        raise translate(error, path) from error


def version_at(path: str) -> int:
    """The number of the schema of a store that is there."""
    db, _ = open_read_only(path)
    try:
        return version_of(db)
    finally:
        db.close()


def probed(path: str, mode: str) -> sqlite3.Connection:
    """SQLite opens a file only when it is asked for something in it."""
    db = sqlite3.connect(
        f"{Path(path).absolute().as_uri()}?{mode}",
        uri=True,
        timeout=LOOK_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        Patience(path).wait_for(lambda: db.execute("SELECT count(*) FROM sqlite_master").fetchone())
    except BaseException:
        db.close()
        raise
    return db


def unkept_steps(writer: Connection, run_id: str, traces: Collection[str]) -> list[str]:
    """Steps of a run that were sent, and of whose effects no commit tells that others could read."""
    rows = writer.query("SELECT run_no FROM runs WHERE run_id = ?", (run_id,))
    low = rows[0][0] << 24 if rows else 0
    kept, place = low + kept_commits(writer, run_id), (low, low + (1 << 24))
    sent: dict[object, None] = {}
    ended: set[object] = set()
    for row_id, packed in writer.query("SELECT id, body FROM commits WHERE id > ? AND id < ? ORDER BY id", place):
        for line in read_lines(writer.unpack(packed)):
            if row_id <= kept and part(line, "artifact").get("schema_id") == "talos.tga.tool_effect":
                ended.add(line["artifact"].get("trace_id"))
            elif row_id > kept and line.get("kind") == "attempt":
                sent[part(line, "attempt").get("trace_id")] = None
    named = dict(writer.query("SELECT trace_id, step_id FROM traces WHERE id >= ? AND id < ?", place))
    return [str(named.get(trace, trace)) for trace in dict.fromkeys((*sent, *traces)) if trace not in ended]


def kept_commits(writer: Connection, run_id: str) -> int:
    """The number of the last commit of a run that lies where the store was opened."""
    gone = writer.gone(("", "-wal"))
    try:
        db = writer.db if gone is None else probed(writer.path, "mode=ro&immutable=1")
        row = db.execute(
            "SELECT max(id) & 16777215 FROM commits WHERE id >> 24 = (SELECT run_no FROM runs WHERE run_id = ?)",
            (run_id,),
        ).fetchone()
        if gone is not None:
            db.close()
    except DATABASE_ERRORS:
        return 0  # no store, or none that could be read
    return int(row[0] or 0)


def refuse_unreadable(db: sqlite3.Connection, path: str) -> int:
    """The schema's version, provided that this version of reenact can read it, if only after a migration."""
    refuse_foreign(db, path)
    version, newest = version_of(db), latest()
    if version > newest:
        raise StoreVersionError(
            f"{path} has schema {version}, this version of reenact knows {newest}: upgrade reenact to use it"
        )
    if version == 0:
        raise StoreUnavailable(f"{path} is no store of reenact; name another file with --store")
    refuse_ancient(version, path)
    if version < newest:
        refuse_other_tables(db, version, path)
    return version


def refuse_other_schema(db: sqlite3.Connection, path: str) -> None:
    version, newest = refuse_unreadable(db, path), latest()
    if version < newest:
        raise StoreVersionError(
            f"{path} has schema {version} and cannot be brought to {newest} where nothing can be written: copy it into "
            "a folder that can be, and name the copy with --store"
        )


def concerns_writing(error: BaseException | None) -> bool:
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.startswith(UNWRITABLE)


def log_size(path: str) -> int:
    return size_of(f"{path}-wal")


def looks(path: str) -> tuple[int, int, int]:
    """By which a file that was written to is told."""
    status = Path(path).stat()
    return status.st_size, status.st_mtime_ns, log_size(path)
