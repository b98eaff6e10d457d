"""Copies of a store for tests. A store is more than its file: what was committed last may stand in the log alone."""

from __future__ import annotations

import glob
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

PARTS = ("", "-wal", ".key")
"""The file, its log, and the key that signed for it first. The index of the log (`-shm`) is made anew from the log."""


def copy_store(store: Path, to: Path) -> Path:
    """The store at another place, as it lies there; nobody may write to it meanwhile."""
    later = (file.name.removeprefix(store.name) for file in store.parent.glob(f"{glob.escape(store.name)}.key.*"))
    for part in (*PARTS, *later):
        source, target = Path(f"{store}{part}"), Path(f"{to}{part}")
        target.unlink(missing_ok=True)
        if source.exists():
            shutil.copy(source, target)
    Path(f"{to}-shm").unlink(missing_ok=True)
    return to


def move_store(store: Path, to: Path) -> Path:
    """The store at another place, and nothing of it where it was."""
    copy_store(store, to)
    for part in (*PARTS, "-shm"):
        Path(f"{store}{part}").unlink(missing_ok=True)
    return to


def back_up(store: Path, to: Path) -> Path:
    """The store in one file, without a log: for who changes bytes at places in that file."""
    with closing(sqlite3.connect(store)) as db, closing(sqlite3.connect(to)) as copy:
        db.backup(copy)
    return to


def whole(store: Path) -> dict[str, bytes]:
    """The bytes of every part, to tell whether somebody wrote there."""
    return {part: path.read_bytes() for part in PARTS if (path := Path(f"{store}{part}")).exists()}
