"""Whether commits that this process wrote are still in the file, when somebody has written to it.

A database in use is written to when its log is moved into it, about every hundred commits, and by nobody else. A backup
that is copied over it leaves the same file, with its log beside it: what is read again, or was in the log, is of today,
and the rest is gone. A connection of its own, which remembers no pages, finds that.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import Final

from reenact.errors import StoreError
from reenact.store.sqlite.opened.files import open_beside

MOST: Final = 256
FIND: Final = "SELECT c.digest FROM runs r JOIN commits c ON c.id = (r.run_no << 24 | ?) WHERE r.run_id = ?"


class OwnCommits:
    """Some of them, from the first to the last: the more there are, the fewer of each hundred."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._some: list[tuple[str, int, str]] = []
        self._every, self._left = 1, 1
        self._written = written(path)

    def add(self, run_id: str, n: int, head: str) -> None:
        self._left -= 1
        if self._left:
            return
        if len(self._some) >= MOST:
            self._some, self._every = self._some[::2], self._every * 2
        self._some.append((run_id, n, head))
        self._left = self._every

    def are_lost(self) -> bool:
        """Asked again and again; looked for only where the file was written to since the last time."""
        now = written(self._path)
        if now == self._written or not self._some:
            self._written = now
            return False
        try:
            with closing(open_beside(self._path)) as db:
                lost = any(digest_of(db, run_id, n) != head for run_id, n, head in self._some)
        except (StoreError, sqlite3.Error) as error:
            raised = error.__cause__ if isinstance(error, StoreError) else error
            # Nonsense, and not merely busy.
            return isinstance(raised, sqlite3.DatabaseError) and not isinstance(raised, sqlite3.OperationalError)
        if not lost:
            self._written = now
        return lost


def digest_of(db: sqlite3.Connection, run_id: str, n: int) -> str | None:
    row = db.execute(FIND, (n, run_id)).fetchone()
    return row[0].hex() if row is not None and isinstance(row[0], bytes) else None


def written(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116  # asked four times a second
    except OSError:
        return None  # that it is gone is told by others
    return status.st_mtime_ns, status.st_size
