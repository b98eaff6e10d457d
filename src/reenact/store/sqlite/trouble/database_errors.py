"""What SQLite raises, told in one line that says what to do next."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from pathlib import Path

from reenact.errors import DamagedRecord, StoreBusy, StoreError, StoreUnavailable, TooManyFiles
from reenact.store.copying.tables import THIS_STORE
from reenact.store.damage import NO_SUCH, TELLS_MORE

DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError, OverflowError)
"""What a damaged schema says of itself may be no text, and a number in a cell may lead to one that no cell can hold."""
WAITED_FOR = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
LEAST_ROOM = 65536
"""The index of a log takes half of this."""
ADVICE = {
    "SQLITE_FULL": "the disk is full; free some space and run `reenact recover`",
    "SQLITE_READONLY": "it is read-only; make it writable or name another store",
    "SQLITE_CANTOPEN": "it cannot be opened; check the path and its permissions",
    "SQLITE_NOTADB": "it is not a database; name another file with --store",
    "SQLITE_CORRUPT": "it is damaged; keep a copy of it, then restore a backup",
    "SQLITE_IOERR": "the disk reports an error; nothing after the last commit was written",
    "SQLITE_PERM": "permission is denied",
    "SQLITE_TOOBIG": "a value is larger than the database can hold",
}


NO_TEXT = re.compile(r"Could not decode to UTF-8 column '(\w+)'")


def is_only_readable(path: str) -> bool:
    """The file can be read, and the log that it needs beside it cannot be made."""
    return os.access(path, os.R_OK) and not os.access(Path(path).absolute().parent, os.W_OK)


def no_file_can_be_opened() -> bool:
    """Of the three that SQLite opens one after the other."""
    opened: list[int] = []
    try:
        opened.extend(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(3))
    except OSError:
        return True
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return False


def is_on_a_full_disk(path: str) -> bool:
    try:
        return shutil.disk_usage(Path(path).absolute().parent).free < LEAST_ROOM
    except OSError:
        return False


def translate(error: Exception, path: str) -> StoreError | DamagedRecord:
    """A database error as one line that says what to do next; of a cell it concerns those alone who need it."""
    no_text = NO_TEXT.match(str(error))
    if no_text is not None:
        return DamagedRecord(f"{path}: {no_text[1]}: {NO_SUCH[str]}; {TELLS_MORE}")
    if isinstance(error, OverflowError):
        return DamagedRecord(f"{path}: a cell holds a number that leads nowhere; {TELLS_MORE}")
    name = getattr(error, "sqlite_errorname", None) or ""
    if isinstance(error, UnicodeDecodeError):
        name = "SQLITE_CORRUPT"
    elif isinstance(error, sqlite3.Error) and is_busy(error):
        return StoreBusy(f"{path} is busy; another process holds it; try again")
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_IOERR")) and no_file_can_be_opened():
        return TooManyFiles(path)
    if name.startswith("SQLITE_CANTOPEN") and is_only_readable(path):
        name = "SQLITE_READONLY"
    if name.startswith("SQLITE_IOERR") and is_on_a_full_disk(path):
        name = "SQLITE_FULL"  # what the log and its index meet there is an error of input and output to SQLite
    return advised(name, error, path)


def advised(name: str, error: Exception, path: str) -> StoreError:
    for prefix, advice in ADVICE.items():
        if name.startswith(prefix):
            return StoreUnavailable(f"{path}: {advice}")
    was_copied = name.startswith("SQLITE_CONSTRAINT") and str(error).startswith(THIS_STORE)
    return (StoreUnavailable if was_copied else StoreError)(f"{path}: {error}")


def is_busy(error: sqlite3.Error) -> bool:
    """Also where SQLite gave up waiting for the locks of a log: `locking protocol`, after ten seconds."""
    return (getattr(error, "sqlite_errorname", None) or "").startswith(WAITED_FOR)


def is_read_only(error: sqlite3.Error) -> bool:
    return (getattr(error, "sqlite_errorname", None) or "").startswith("SQLITE_READONLY")
