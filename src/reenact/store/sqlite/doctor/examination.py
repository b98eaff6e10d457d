"""A store file as a doctor looks at it: opened for reading alone, and changed by nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from reenact.contracts.records import ENDED
from reenact.errors import NotAuthentic, ReenactError
from reenact.store.base import OpenRun
from reenact.store.doctor.examination import LatestTimes
from reenact.store.doctor.findings import Finding, flat
from reenact.store.evidence import DamagedCells
from reenact.store.keys.here import KeysHere
from reenact.store.log.log import ReadLog
from reenact.store.sqlite.connection import Connection, checked_row
from reenact.store.sqlite.doctor.schema import look_at_schema, look_where_it_went
from reenact.store.sqlite.doctor.surroundings import look_around, look_from_outside
from reenact.store.sqlite.evidence.run_evidence import SqliteRunEvidence
from reenact.store.sqlite.leases import OPEN_RUN
from reenact.store.sqlite.log.rows import SqliteLogRows
from reenact.store.sqlite.migrations import latest, refuse_ancient, refuse_foreign, version_of
from reenact.store.sqlite.read_only import open_read_only
from reenact.store.sqlite.reader import ENCRYPTED_WITH
from reenact.store.sqlite.signed.key_history import IDENTITY, key_table, origins_in
from reenact.store.sqlite.trouble.database_errors import DATABASE_ERRORS, translate
from reenact.values.clock import SystemClock

FORGOTTEN_RUNS = """
WITH RECURSIVE number(n) AS (
    SELECT min(id) >> 24 FROM commits
    UNION ALL SELECT (SELECT min(id) >> 24 FROM commits WHERE id >= (n + 1) << 24) FROM number WHERE n IS NOT NULL
) SELECT n FROM number WHERE n IS NOT NULL AND n NOT IN (SELECT run_no FROM runs)
"""


class SqliteExamination:
    """`reenact.store.doctor.examination.Examination` of one file."""

    def __init__(self, path: str) -> None:
        self.name = path
        self.is_readable = False
        self._file = Path(path)
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    # -- what the engine sees --------------------------------------------------------------------------------------

    def look_from_outside(self) -> tuple[list[Finding], bool]:
        return look_from_outside(self.name)

    def look_inside(self) -> Iterator[Finding]:
        db, _ = open_read_only(self.name)
        self._connection = Connection(self.name, db)
        db.row_factory = None  # here each cell is looked at by whoever asks for it
        try:
            yield from self._look_at(db)
        except DATABASE_ERRORS as error:
            raise translate(error, self.name) from error

    def _look_at(self, db: sqlite3.Connection) -> Iterator[Finding]:
        refuse_foreign(db, self.name)
        db.execute("BEGIN")  # one snapshot, while others write
        version, newest = version_of(db), latest()
        if version > newest:
            yield Finding(
                "schema", "trouble", f"version {version}, newer than this reenact knows ({newest})", "upgrade reenact"
            )
            return
        if version == 0:
            yield empty(self.name)
            return
        refuse_ancient(version, self.name)
        problem = flat(str(db.execute("PRAGMA quick_check(1)").fetchone()[0]))
        if problem != "ok":
            yield Finding("pages", "trouble", problem, f"copy {self.name} away, then restore a backup")
            return
        yield from look_where_it_went(db)
        wrong = list(look_at_schema(db, self.name, version))
        yield from wrong
        if version < newest:
            do = "the next command brings it up to date, after a backup"
            yield Finding("schema", "note", f"version {version} of {newest}", do)
            return
        if not wrong:
            yield Finding("schema", "ok", f"version {version}")
        yield Finding("pages", "ok", "the database's own check finds nothing")
        self.is_readable = not any(finding.verdict == "trouble" for finding in wrong)

    def look_around(self) -> Iterator[Finding]:
        keys = self._asked("SELECT kid, public_key FROM keys")
        used = self._asked("SELECT key, value FROM store WHERE key GLOB ?", f"{ENCRYPTED_WITH}*")
        names = [name.removeprefix(ENCRYPTED_WITH) for name in used or ()]
        lost: dict[str, list[str]] = {}
        try:
            lost = self._lost_keys()
        except NotAuthentic as error:
            yield Finding("key", "trouble", flat(str(error)))
        except (ReenactError, *DATABASE_ERRORS):
            pass  # what is wrong with the rows is told elsewhere
        yield from look_around(self._file, keys, names, lost)

    def _lost_keys(self) -> dict[str, list[str]]:
        """Signing keys that new runs or open ones need and that are not here, with those runs."""
        if self._connection is None or not self.is_readable:
            return {}
        believed = Connection(self.name, self._connection.db)  # which reads no cell that holds another kind of value
        try:
            return self._needed_elsewhere(believed)
        finally:
            self._connection.db.row_factory = None

    def _needed_elsewhere(self, connection: Connection) -> dict[str, list[str]]:
        (store_id, _, copied), clock = connection.query(IDENTITY)[0], SystemClock()
        table = key_table(connection, store_id, KeysHere(self._file), clock, origins_in(copied))
        history, needed = table.history(), dict[str, list[str]]()
        if history.current is not None:
            needed[history.current] = []
        for run in table.needing(history):
            needed.setdefault(run.kid, []).append(run.run_id)
        return {kid: runs for kid, runs in needed.items() if table.here.usable(kid) is None}

    def _asked(self, sql: str, *parameters: str) -> dict[str, str] | None:
        """Pairs that the store knows, None where it cannot be asked."""
        if self._connection is None:
            return None
        try:
            return dict(self._connection.db.execute(sql, parameters))
        except DATABASE_ERRORS:
            return None

    # -- rows ------------------------------------------------------------------------------------------------------

    @property
    def _opened(self) -> Connection:
        assert self._connection is not None, "look inside first"
        return self._connection

    def _believed(self, sql: str) -> list[Any]:
        """Rows of which each cell holds what its column may; DamagedRecord, which the doctor tells, for any other."""
        db = self._opened.db
        db.row_factory = checked_row
        try:
            return self._opened.query(sql)
        finally:
            db.row_factory = None

    def _run(self, run_no: int) -> SqliteRunEvidence:
        return SqliteRunEvidence(self._opened, run_no, DamagedCells())

    def newest_runs(self, count: int) -> list[SqliteRunEvidence]:
        rows = self._opened.query("SELECT run_no FROM runs ORDER BY run_no DESC LIMIT ?", (count,))
        return [self._run(row[0]) for row in rows]

    def latest_times(self) -> LatestTimes:
        began, lease = self._opened.query("SELECT max(started_at), max(expires_ms) FROM runs")[0]
        return LatestTimes(began if isinstance(began, str) else None, lease if isinstance(lease, int) else None)

    def status_counts(self) -> dict[str, int]:
        return dict(self._believed("SELECT status, count(*) FROM runs GROUP BY status"))

    def open_runs(self) -> list[tuple[SqliteRunEvidence, OpenRun]]:
        rows = self._believed(f"SELECT run_no, {OPEN_RUN} ORDER BY run_no")
        return [(self._run(row[0]), OpenRun(*row[1:])) for row in rows]

    def forgotten_runs(self) -> int:
        return len(self._opened.query(FORGOTTEN_RUNS))

    def seal_log(self) -> ReadLog:
        store_id = dict(self._believed("SELECT key, value FROM store WHERE key = 'store_id'")).get("store_id", "")
        keys = dict(self._believed("SELECT kid, public_key FROM keys"))
        return ReadLog(SqliteLogRows(self._opened, None), store_id, lambda: keys)

    def unsealed_runs(self) -> list[str]:
        rows = self._believed(
            f"SELECT run_id FROM runs WHERE status IN {ENDED} AND run_no NOT IN (SELECT run_no FROM seals)"
        )
        return [row[0] for row in rows]


def empty(path: str) -> Finding:
    if Path(f"{path}.key").exists():
        return Finding(
            "store",
            "warning",
            f"{path} is empty, though a key lies beside it: its log was lost, or it was made anew",
            f"put back the file together with its {path}-wal; otherwise the next run makes a new store of it",
        )
    return Finding("store", "note", f"{path} is empty", "`reenact run PLAN` makes a store of it")
