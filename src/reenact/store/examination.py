"""Look at a store as a doctor would: what is there, what is wrong, what to do."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reenact.errors import ReenactError
from reenact.store.connection import translate
from reenact.store.migrations import latest
from reenact.store.owner import owner_is_gone
from reenact.store.reading import open_read_only
from reenact.values.clock import Door, parse_ts

Verdict = Literal["ok", "note", "warning", "trouble"]
LOW_DISK = 200 * 1024 * 1024
FUTURE_MS = 60_000
OPEN_RUNS = (
    "SELECT run_id, status, owner, expires_ms FROM runs WHERE status NOT IN ('completed', 'failed', 'cancelled')"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One look: what was looked at, how it is, and what to do about it."""

    subject: str
    verdict: Verdict
    says: str
    do: str | None = None


def examine(path: str, door: Door) -> list[Finding]:
    """Every look, in order. Nothing is changed, and nothing is made where nothing is."""
    file = Path(path)
    if not file.exists():
        return [Finding("store", "note", f"{path} does not exist", "`reenact run PLAN` makes it")]
    if not file.is_file():
        return [Finding("store", "trouble", f"{path} is not a file", "name a file with --store")]
    findings = [Finding("store", "ok", f"{path}, {size_of(file)}")]
    try:
        db, _ = open_read_only(path)
    except ReenactError as error:
        return [*findings, Finding("store", "trouble", str(error)), *look_around(file)]
    try:
        findings += look_inside(db, path, door)
    except sqlite3.Error as error:
        findings.append(Finding("store", "trouble", str(translate(error, path))))
    except ReenactError as error:
        findings.append(Finding("store", "trouble", str(error)))
    finally:
        db.close()
    return [*findings, *look_around(file)]


def size_of(file: Path) -> str:
    total = sum(part.stat().st_size for part in file.parent.glob(file.name + "*") if part.is_file())
    return f"{total / 1024 / 1024:.1f} MB with its log"


def look_inside(db: sqlite3.Connection, path: str, door: Door) -> Iterator[Finding]:
    version, newest = int(db.execute("PRAGMA user_version").fetchone()[0]), latest()
    if version > newest:
        yield Finding(
            "schema", "trouble", f"version {version}, newer than this reenact knows ({newest})", "upgrade reenact"
        )
        return
    if version < newest:
        yield Finding(
            "schema", "note", f"version {version} of {newest}", "the next command brings it up to date, after a backup"
        )
        return
    yield Finding("schema", "ok", f"version {version}")
    problem = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        yield Finding("pages", "trouble", str(problem), f"copy {path} away, then restore a backup")
        return
    yield Finding("pages", "ok", "the database's own check finds nothing")
    yield clock(db, door)
    yield from runs(db, door)


def clock(db: sqlite3.Connection, door: Door) -> Finding:
    row = db.execute("SELECT max(started_at) FROM runs").fetchone()
    if row[0] is not None and parse_ts(row[0]) > door.now_ms() + FUTURE_MS:
        return Finding("clock", "warning", f"a run started at {row[0]}, which has not come yet", "set the clock")
    return Finding("clock", "ok", f"it is {door.timestamp()}")


def runs(db: sqlite3.Connection, door: Door) -> Iterator[Finding]:
    counts = dict(db.execute("SELECT status, count(*) FROM runs GROUP BY status"))
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none yet"
    yield Finding("runs", "ok", summary)
    for run_id, status, owner, expires in db.execute(f"{OPEN_RUNS} ORDER BY run_no"):
        yield open_run(run_id, status, owner, expires, door.now_ms())


def look_at_run(path: str, run_id: str, door: Door) -> Finding | None:
    """Whether somebody works on a run; None for one that has ended, and where the store cannot be read just now."""
    try:
        db, _ = open_read_only(path)
    except ReenactError:
        return None
    try:
        row = db.execute(f"{OPEN_RUNS} AND run_id = ?", (run_id,)).fetchone()
    except sqlite3.Error:
        return None
    finally:
        db.close()
    if row is None:
        return None
    _, status, owner, expires = row
    return open_run(run_id, status, owner, expires, door.now_ms())


def open_run(run_id: str, status: str, owner: str | None, expires: int, now: int) -> Finding:
    subject = f"run {run_id}"
    if owner is not None and now < expires and not owner_is_gone(owner):
        host, pid = owner.split("|")[:2]
        return Finding(subject, "ok", f"is being worked on by process {pid} on {host}")
    if status == "waiting":
        return Finding(subject, "note", "waits for a person", f"reenact approve {run_id} --reason … (or deny)")
    if status == "held":
        return Finding(subject, "warning", "is held", f"reenact resume {run_id} says what it needs")
    return Finding(subject, "warning", "nobody works on it", f"reenact resume {run_id}, or reenact recover")


def look_around(file: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(file.parent).free
    if free < LOW_DISK:
        yield Finding(
            "disk", "warning", f"{free / 1024 / 1024:.0f} MB free", "free some space: a full disk stops all runs"
        )
    else:
        yield Finding("disk", "ok", f"{free / 1024 / 1024 / 1024:.1f} GB free")
    if not os.access(file, os.W_OK) or not os.access(file.parent, os.W_OK):
        yield Finding(
            "permissions",
            "warning",
            "the store cannot be written here: it can be listed, shown, verified, exported and replayed",
            "to run with it, make the file and its folder writable",
        )
    yield key(Path(f"{file}.key"))


def key(path: Path) -> Finding:
    """The signing key beside the store."""
    if not path.exists():
        return Finding("key", "note", f"{path} is not there", "the next run makes one; older evidence keeps its own")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return Finding("key", "warning", f"{path} can be read by others (mode {mode:o})", f"chmod 600 {path}")
    return Finding("key", "ok", f"{path}, mode {mode:o}")
