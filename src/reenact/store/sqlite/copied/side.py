"""A store file as a side of a copy: what the one that is copied and the copy have in common."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from reenact.store.copying.tables import Row, Table
from reenact.store.sqlite.connection import Connection
from reenact.store.sqlite.copied import rows as files_rows
from reenact.store.sqlite.evidence.evidence import SqliteEvidence, open_evidence
from reenact.store.sqlite.read_only import open_read_only
from reenact.store.sqlite.trouble.database_errors import DATABASE_ERRORS, translate


class SqliteSide:
    """`reenact.store.copying.sides.Side` of the file at `path`."""

    def __init__(self, path: str, shown: str) -> None:
        self.shown = shown
        self.path = path
        self._writer: Connection | None = None
        self._reader: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    @property
    def writer(self) -> Connection:
        """To write through, which makes the file where there is none."""
        if self._writer is None:
            self._writer = Connection(self.path)
            self._writer.db.row_factory = None
        return self._writer

    @property
    def reader(self) -> sqlite3.Connection:
        if self._reader is None:
            self._reader, _ = open_read_only(self.path)
        return self._reader

    def says(self, name: str) -> str | None:
        with self.told():
            return files_rows.says(self.reader, name)

    def count(self, table: Table) -> int:
        with self.told():
            return files_rows.count(self.reader, table)

    def rows(self, table: Table, after: Row | None = None) -> Iterator[Row]:
        rows = files_rows.rows(self.reader, table, after)
        try:
            yield from rows
        except DATABASE_ERRORS as error:
            raise translate(error, self.path) from error
        finally:
            rows.close()

    def evidence(self) -> SqliteEvidence:
        return open_evidence(self.path)

    def keys_at(self) -> Path:
        return Path(self.path)

    def told(self) -> Told:
        return Told(self.path)


class Told:
    """What SQLite raises within is told as any other engine would."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        if isinstance(error, DATABASE_ERRORS):
            raise translate(error, self._path) from error


def is_there(path: str) -> bool:
    return Path(path).exists() or Path(f"{path}-wal").exists()
