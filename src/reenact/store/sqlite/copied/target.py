"""A store file that is the copy of another store: a draft beside its place until it is whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from reenact.errors import StoreUnavailable, UsageError
from reenact.store.copying.tables import FILLING, Row, Table
from reenact.store.private_file import sync_folder
from reenact.store.sqlite.copied import rows as files_rows
from reenact.store.sqlite.copied.side import SqliteSide, is_there
from reenact.store.sqlite.read_only import open_read_only

DRAFT: Final = ".copying"
"""How the name of a copy ends that is not whole."""
PARTS: Final = ("", "-wal", "-shm", "-turn")


class SqliteTarget(SqliteSide):
    """`reenact.store.copying.sides.Target`. It is filled as `PATH.copying`, and gets its name when it is whole."""

    def __init__(self, path: str, shown: str) -> None:
        super().__init__(path + DRAFT, shown)
        self.place = path

    def begin(self, begun_as: str) -> None:
        if is_there(self.place):
            raise UsageError(f"there is a store at {self.place} already: a copy goes to a place where there is none")
        begun = self.says(FILLING) if is_there(self.path) else None
        if begun is not None and begun != begun_as:
            raise UsageError(f"{self.path} is the beginning of another copy: take it away first")
        if begun is None:
            with self.writer.transaction() as db:
                db.execute("INSERT INTO store VALUES (?, ?)", (FILLING, begun_as))

    def keys_at(self) -> Path:
        return Path(self.place)

    def says_whole(self, name: str) -> str | None:
        if not is_there(self.place):
            return None
        with self.told():
            db, _ = open_read_only(self.place)
            try:
                return files_rows.says(db, name)
            finally:
                db.close()

    def discard(self) -> None:
        self.close()
        for part in PARTS:
            Path(f"{self.path}{part}").unlink(missing_ok=True)

    def last(self, table: Table) -> Row | None:
        with self.told():
            return files_rows.last(self.reader, table)

    def write(self, table: Table, rows: Sequence[Row]) -> None:
        with self.writer.transaction() as db:
            files_rows.write(db, table, rows)

    def finish(self) -> None:
        with self.writer.transaction() as db:
            db.execute("DELETE FROM store WHERE key = ?", (FILLING,))
        (busy, _, _) = self.writer.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.close()
        if busy:
            raise StoreUnavailable(f"{self.path} is being read by somebody: end that, and say the command again")
        for part in PARTS[1:]:
            Path(f"{self.path}{part}").unlink(missing_ok=True)
        Path(self.path).rename(self.place)
        sync_folder(Path(self.place))
