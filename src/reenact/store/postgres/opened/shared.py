"""The connections of a process to its stores: one set for all that have the same store open, none of its parent's."""

from __future__ import annotations

import os
import threading

from reenact.store.postgres.opened.database import Database
from reenact.store.postgres.opened.url import Place, place_of

_lock = threading.Lock()
_open: dict[Place, tuple[Database, int]] = {}
_inherited: list[Database] = []
"""Of the parent of a forked child, never to be closed there: its server would end the parent's sessions."""


def database_at(url: str) -> Database:
    """That of everybody who has the store open here. Whoever is done calls `leave`."""
    place = place_of(url)
    with _lock:
        database, users = _open.get(place) or (Database(place), 0)
        _open[place] = database, users + 1
    return database


def leave(database: Database) -> None:
    with _lock:
        kept, users = _open.get(database.place, (None, 0))
        if kept is not database:
            return
        if users > 1:
            _open[database.place] = database, users - 1
            return
        del _open[database.place]
    database.close()


def leave_all_to_the_parent() -> None:
    global _lock  # noqa: PLW0603  # another thread of the parent may have had it
    _lock = threading.Lock()
    _inherited.extend(database for database, _ in _open.values())
    _open.clear()


os.register_at_fork(after_in_child=leave_all_to_the_parent)
