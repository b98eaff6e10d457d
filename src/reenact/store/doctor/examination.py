"""Look at a store as a doctor would: what is there, what is wrong, what to do."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from reenact.errors import ReenactError, StoreUnavailable
from reenact.store.compression import Codec
from reenact.store.doctor.findings import NAMED, Finding, command, flat
from reenact.store.doctor.soundness import look_at_rows, look_at_schema
from reenact.store.doctor.surroundings import LOG, MEGABYTE, log_was_taken, look_around, size_of
from reenact.store.owner import owner_is_gone
from reenact.store.sqlite.appending import LEASE_MS
from reenact.store.sqlite.connection import DATABASE_ERRORS, refuse_lone_log, translate
from reenact.store.sqlite.migrations import latest, refuse_foreign, version_of
from reenact.store.sqlite.reading import open_read_only
from reenact.values.clock import Door, format_ts, parse_ts

FUTURE_MS = 60_000
NEWEST = 8
"""So many runs are asked for the time of their last commit."""
TIME = re.compile(rb'"(?:ts|ended_at|sealed_at|started_at)":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"')
OPEN_RUNS = (
    "SELECT run_id, kind, status, owner, expires_ms FROM runs WHERE status NOT IN ('completed', 'failed', 'cancelled')"
)


def examine(path: str, door: Door, *, store: str | None = None) -> list[Finding]:
    """Every look, in order. Nothing is changed, and nothing is made where nothing is.

    `store` is how the store was named, where what is to be typed has to name it too.
    """
    file = Path(path)
    try:
        is_there, is_file = file.exists(), file.is_file()
        refuse_lone_log(path)
    except OSError as error:
        return [Finding("store", "trouble", f"{path} cannot be looked at: {error.strerror}", "check its folders")]
    except StoreUnavailable as error:
        return [Finding("store", "trouble", str(error))]
    if not is_there:
        return [Finding("store", "note", f"{path} does not exist", "`reenact run PLAN` makes it")]
    if not is_file:
        return [Finding("store", "trouble", f"{path} is not a file", "name a file with --store")]
    size = size_of(file, *(Path(f"{path}{suffix}") for suffix in LOG))
    findings = [Finding("store", "ok", f"{path}, {size / MEGABYTE:.1f} MB with its log")]
    if (taken := log_was_taken(file)) is not None:
        findings.append(taken)
    keys: dict[str, str] | None = None
    try:
        db, _ = open_read_only(path)
        try:
            findings += look_inside(db, path, door, store)
            keys = keys_of(db)
        finally:
            db.close()
    except DATABASE_ERRORS as error:
        findings.append(Finding("store", "trouble", flat(str(translate(error, path)))))
    except ReenactError as error:
        findings.append(Finding("store", "trouble", flat(str(error))))
    return [*findings, *look_around(file, keys)]


def keys_of(db: sqlite3.Connection) -> dict[str, str] | None:
    try:
        return dict(db.execute("SELECT kid, public_key FROM keys"))
    except sqlite3.Error:
        return None


def look_inside(db: sqlite3.Connection, path: str, door: Door, store: str | None) -> Iterator[Finding]:
    refuse_foreign(db, path)
    db.execute("BEGIN")  # one snapshot, while others write
    version, newest = version_of(db), latest()
    if version > newest:
        yield Finding(
            "schema", "trouble", f"version {version}, newer than this reenact knows ({newest})", "upgrade reenact"
        )
        return
    if version == 0:
        yield empty(path)
        return
    problem = flat(str(db.execute("PRAGMA quick_check(1)").fetchone()[0]))
    if problem != "ok":
        yield Finding("pages", "trouble", problem, f"copy {path} away, then restore a backup")
        return
    wrong = list(look_at_schema(db, path, version))
    yield from wrong
    if version < newest:
        yield Finding(
            "schema", "note", f"version {version} of {newest}", "the next command brings it up to date, after a backup"
        )
        return
    if not wrong:
        yield Finding("schema", "ok", f"version {version}")
    yield Finding("pages", "ok", "the database's own check finds nothing")
    if not any(finding.verdict == "trouble" for finding in wrong):
        yield clock(db, door)
        yield from look_at_rows(db, path, store)
        yield from runs(db, door, store)


def empty(path: str) -> Finding:
    if Path(f"{path}.key").exists():
        return Finding(
            "store",
            "warning",
            f"{path} is empty, though a key lies beside it: its log was lost, or it was made anew",
            f"put back the file together with its {path}-wal; otherwise the next run makes a new store of it",
        )
    return Finding("store", "note", f"{path} is empty", "`reenact run PLAN` makes a store of it")


# -- the clock -------------------------------------------------------------------------------------------------------


def clock(db: sqlite3.Connection, door: Door) -> Finding:
    last = last_time(db)
    if last > door.now_ms() + FUTURE_MS:
        return Finding(
            "clock",
            "warning",
            f"it is {door.timestamp()}, and the store was written to at {format_ts(last)}, which has not come yet",
            "set the clock: leases, budgets of a day and expiry go by it",
        )
    return Finding("clock", "ok", f"it is {door.timestamp()}")


def last_time(db: sqlite3.Connection) -> int:
    """The latest moment that the store tells of, in Unix milliseconds; 0 where it tells of none."""
    began, lease = db.execute("SELECT max(started_at), max(expires_ms) FROM runs").fetchone()
    times = [lease - LEASE_MS] if lease else [0]
    texts = {began} if began else set()
    codec = Codec()
    for (run_no,) in db.execute("SELECT run_no FROM runs ORDER BY run_no DESC LIMIT ?", (NEWEST,)).fetchall():
        row = db.execute(
            "SELECT body FROM commits WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1",
            (run_no << 24, (run_no + 1) << 24),
        ).fetchone()
        try:
            body = codec.unpack(row[0]) if row and isinstance(row[0], bytes) else b""
        except ReenactError:
            continue  # that it cannot be read is told with its run
        texts |= {found.decode() for found in TIME.findall(body)}
    for text in texts:
        try:
            times.append(parse_ts(text))
        except ReenactError:
            continue
    return max(times)


# -- runs ------------------------------------------------------------------------------------------------------------


def runs(db: sqlite3.Connection, door: Door, store: str | None) -> Iterator[Finding]:
    counts = dict(db.execute("SELECT status, count(*) FROM runs GROUP BY status"))
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none yet"
    yield Finding("runs", "ok", summary)
    seen: Counter[str] = Counter()
    for row in db.execute(f"{OPEN_RUNS} ORDER BY run_no"):
        finding = open_run(*row, now=door.now_ms(), store=store)
        seen[finding.says] += 1
        if seen[finding.says] <= NAMED or " process " in finding.says:
            yield finding
    yield from (more(says, count - NAMED, store) for says, count in seen.items() if count > NAMED)


def more(says: str, count: int, store: str | None) -> Finding:
    """About those that were not named."""
    if says == WAITS:
        return Finding("runs", "note", f"{count} more: {says}", f"`{command(store, 'ls', '--waiting')}` lists them")
    listing = f"`{command(store, 'ls')}` lists them"
    if says == ABANDONED:
        listing = (
            f"`{command(store, 'recover')}`, with the --skills that they need, goes on with all of them; {listing}"
        )
    return Finding("runs", "warning", f"{count} more: {says}", listing)


def look_at_run(path: str, run_id: str, door: Door, *, store: str | None = None) -> Finding | None:
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
    return None if row is None else open_run(*row, now=door.now_ms(), store=store)


WAITS = "waits for a person"
HELD = "is held"
ABANDONED = "nobody works on it"
HOSTLESS = "a session that nobody works on"


def open_run(
    run_id: str, kind: str, status: str, owner: str | None, expires: int, *, now: int, store: str | None
) -> Finding:
    subject = f"run {run_id}"
    if owner is not None and now < expires and not owner_is_gone(owner):
        return being_worked_on(subject, owner, expires, now)
    if status == "waiting":
        approve = command(store, "approve", run_id)
        return Finding(subject, "note", WAITS, f"`{approve} --reason …` (or deny)")
    if status == "held":
        return Finding(subject, "warning", HELD, f"`{command(store, 'resume', run_id)}` says what it needs")
    if kind == "session":
        cancel = command(store, "cancel", run_id, "--reason", "…")
        do = f"its program goes on with session(resume={run_id!r}); to end it where there is none: `{cancel}`"
        return Finding(subject, "warning", HOSTLESS, do)
    resume, recover = command(store, "resume", run_id), command(store, "recover")
    return Finding(subject, "warning", ABANDONED, f"`{resume}`, or `{recover}`, with the --skills that it needs")


def being_worked_on(subject: str, owner: str, expires: int, now: int) -> Finding:
    host, pid = (*owner.split("|"), "?")[:2]
    if expires > now + LEASE_MS + FUTURE_MS:
        says = f"process {pid} on {host} has it until {format_ts(expires)}, longer than any lease is"
        return Finding(subject, "warning", says, "a clock was changed, here or there: set it; see `clock`")
    return Finding(subject, "ok", f"is being worked on by process {pid} on {host}")
