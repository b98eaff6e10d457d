"""The evidence of an SQLite store, read in one snapshot."""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from reenact.store.copying.origins import COPIED, Origins, read_origins
from reenact.store.evidence import DamagedCells, ErasureRow, KeyCells, LateRow
from reenact.store.keys.here import KeysHere
from reenact.store.naming import read_lines
from reenact.store.signing import KeyOf
from reenact.store.sqlite.connection import Connection
from reenact.store.sqlite.evidence.run_evidence import KEY_COLUMNS, SqliteRunEvidence
from reenact.store.sqlite.log.rows import SqliteLogRows
from reenact.store.sqlite.migrations import version_of
from reenact.store.sqlite.read_only import open_untouched
from reenact.store.sqlite.schema import Alteration, alterations
from reenact.store.sqlite.signed.notes import COLUMNS
from reenact.verify.report import Where
from reenact.verify.signed.notes import NoteRow

CELLS: tuple[type, ...] = (str, str, str, str, bytes, bytes)

NAMED = "session = ? AND run_no IN (SELECT max(run_no) FROM runs WHERE session = ? GROUP BY agent_id) ORDER BY run_no"
"""The newest run of each agent that has a session of this id."""


class SqliteEvidence:
    """`reenact.store.evidence.Evidence` on one connection, in a transaction that whoever opened it began."""

    def __init__(self, connection: Connection, key_of: KeyOf, altered: tuple[Alteration, ...] = ()) -> None:
        self.connection = connection
        self._altered = altered
        self.damaged = DamagedCells()
        self.key_of = key_of

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def _query(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        return self.connection.query(sql, parameters)

    # -- which run -------------------------------------------------------------------------------------------------

    def run(self, number: int) -> SqliteRunEvidence:
        return SqliteRunEvidence(self.connection, number, self.damaged)

    def named_runs(self, prefix: str) -> list[tuple[int, str]]:
        if prefix == "last":
            return self._query("SELECT run_no, run_id FROM runs ORDER BY run_no DESC LIMIT 1")
        if not prefix:
            return []
        sessions = self._query(f"SELECT run_no, run_id FROM runs WHERE {NAMED}", (prefix, prefix))
        if sessions:
            return sessions
        return self._query(
            "SELECT run_no, run_id FROM runs WHERE run_id >= ? AND run_id < ? LIMIT 2", (prefix, prefix + "~")
        )

    def run_numbers(self) -> list[int]:
        return [row[0] for row in self._query("SELECT DISTINCT id >> 24 FROM commits ORDER BY 1")]

    # -- rows of the whole store -----------------------------------------------------------------------------------

    def erasures(self) -> list[ErasureRow]:
        found = []
        for row_id, run_no, body in self._query("SELECT id, run_no, body FROM erasures ORDER BY id"):
            row = f"id {row_id}"
            record = self.damaged.checked("erasures", row, "body", body, bytes) or b""
            found.append(ErasureRow(row_id, self.damaged.checked("erasures", row, "run_no", run_no, int), record))
        return found

    def late_effects(self) -> list[LateRow]:
        found = []
        rows = self._query("SELECT id, run_no, trace_id, body FROM late_effects ORDER BY id")
        for row_id, run_no, trace_id, body in rows:
            row = f"id {row_id}"
            found.append(
                LateRow(
                    row_id,
                    self.damaged.checked("late_effects", row, "run_no", run_no, int),
                    self.damaged.checked("late_effects", row, "trace_id", trace_id, str),
                    self.damaged.checked("late_effects", row, "body", body, bytes),
                )
            )
        return found

    def keys(self) -> dict[str, str]:
        found = {}
        for number, (kid, key) in enumerate(self._query("SELECT kid, public_key FROM keys ORDER BY kid"), start=1):
            row = f"kid {kid}" if isinstance(kid, str) else f"number {number}"
            name = self.damaged.checked("keys", row, "kid", kid, str)
            text = self.damaged.checked("keys", row, "public_key", key, str)
            if name is not None and text is not None:
                found[name] = text
        return found

    def notes(self) -> SqliteNotes:
        return SqliteNotes(self.connection, self.damaged)

    def log_rows(self) -> SqliteLogRows:
        return SqliteLogRows(self.connection, None)

    def vouched_from(self) -> int | None:
        rows = self._query("SELECT record FROM notes WHERE schema = 'reenact.heads.v1' AND record IS NOT NULL LIMIT 1")
        said = next(read_lines(rows[0][0]), {}).get("last_run") if rows and isinstance(rows[0][0], bytes) else None
        return said + 1 if isinstance(said, int) else None

    def store_id(self) -> str | None:
        rows = self._query("SELECT value FROM store WHERE key = 'store_id'")
        return rows[0][0] if rows and isinstance(rows[0][0], str) else None

    def origins(self) -> Origins:
        rows = self._query("SELECT value FROM store WHERE key = ?", (COPIED,))
        return read_origins(rows[0][0] if rows else None)

    def key_secret(self) -> bytes | None:
        """None in a store that was never opened for writing since there is one."""
        rows = self._query("SELECT secret FROM key_secret")
        return self.damaged.checked("key_secret", "id 1", "secret", rows[0][0], bytes) if rows else None

    def keyed_call(self, server: str, tool: str, key: str) -> KeyCells | None:
        rows = self._query(
            f"SELECT {KEY_COLUMNS} FROM idempotency WHERE server = ? AND tool = ? AND key = ?", (server, tool, key)
        )
        return KeyCells(*rows[0]) if rows else None

    def altered_tables(self) -> list[tuple[str, str]]:
        return [(made.name, part.says) for part in self._altered if part.is_of_table and (made := part.made)]

    def altered_guards(self) -> list[str]:
        return [part.says for part in self._altered if not part.is_of_table]


class SqliteNotes:
    """`reenact.verify.signed.notes.NoteSource`: those that were asked for, and no others."""

    def __init__(self, connection: Connection, damaged: DamagedCells) -> None:
        self._connection = connection
        self._damaged = damaged

    def with_records(self) -> list[NoteRow]:
        return self._rows("record IS NOT NULL")

    def about(self, digest: str, /) -> list[NoteRow]:
        return self._rows("digest = ?", digest)

    def _rows(self, where: str, *values: object) -> list[NoteRow]:
        found = []
        for row_id, *cells in self._connection.query(
            f"SELECT id, {COLUMNS} FROM notes WHERE {where} ORDER BY id", values
        ):
            row = f"id {row_id}"
            for column, cell, kind in zip(COLUMNS.split(", "), cells, CELLS, strict=True):
                if cell is not None or column != "record":
                    self._damaged.checked("notes", row, column, cell, kind)
            found.append(NoteRow(Where(file="notes", row=row), *cells))
        return found


def open_evidence(path: str) -> SqliteEvidence:
    """What lies in a store file. Nothing of it is run, and nothing written."""
    connection, altered = open_untouched(path)
    return snapshot(connection, KeysHere(Path(path)).usable, altered)


def copy_of(db: sqlite3.Connection, key_of: KeyOf) -> SqliteEvidence:
    """What lies in a store in memory, which nobody else can open."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    db.backup(copy)
    return snapshot(Connection(":memory:", copy), key_of, tuple(alterations(copy, version_of(copy))))


def snapshot(connection: Connection, key_of: KeyOf, altered: tuple[Alteration, ...] = ()) -> SqliteEvidence:
    # Text that is none stays text, whatever its bytes: a cell is told from a blob, and never refuses to be read.
    # Each cell is looked at by whoever asks for it.
    connection.db.text_factory, connection.db.row_factory = as_text, None
    connection.query("BEGIN")  # however long the reading takes
    return SqliteEvidence(connection, lru_cache(key_of), altered)


def as_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
