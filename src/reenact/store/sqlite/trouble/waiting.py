"""Waiting for a file that somebody else is writing to: how long, and who is in the way.

SQLite says of any lock that it cannot have that the file is busy. A writer that works is waited for. One that was
stopped in the middle of a commit keeps its lock until it goes on or ends: it is found by its lock, which the kernel
lists, or by its lease, and named within `STOPPED_S`. So is a file system that has no locks.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from reenact.contracts.records import ENDED
from reenact.errors import StoreBusy, StoreError, StoreUnavailable
from reenact.store.base import LEASE_MS
from reenact.store.owner import is_stopped, process_is_stopped, this_host
from reenact.store.sqlite.trouble.database_errors import is_busy
from reenact.values.clock import say_ts

try:
    import fcntl
except ImportError:  # pragma: no cover  # only where the system has no such locks
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

BUSY_TIMEOUT_S = 60.0
"""How long a writer that works is waited for."""
STOPPED_S = 5.0
"""How long one is waited for that stands still."""
AGAIN_S = 0.5
"""How long the next write waits while the same writer is still in the way."""
LOOK_S = 1.0
SHORTEST_PAUSE_S = 0.0002
LONGEST_PAUSE_S = 0.01
WRITE_LOCK: Final = 120
"""The byte of the log's index that whoever writes has locked; the next seven are locks too."""


class Patience:
    """How long this process has been waiting for one file. Waits that follow each other do not add up."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.gave_up = False
        """The last wait was in vain: nobody has written through here since."""

    def wait_for(self, act: Callable[[], T], ask: sqlite3.Connection | None = None) -> T:
        """What `act` gives, as soon as nobody is in its way. SQLite's own waiting sleeps through short transactions.

        `ask` is where leases can be read from.
        """
        began, pause, looks = time.monotonic(), SHORTEST_PAUSE_S, 0
        longest = AGAIN_S if self.gave_up else BUSY_TIMEOUT_S
        while True:
            try:
                done = act()
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
            else:
                self.gave_up = False
                return done
            waited = time.monotonic() - began
            if waited > min(longest, (looks + 1) * LOOK_S):
                looks += 1
                told = in_the_way(self.path, waited, ask, is_last=waited > longest)
                if told is not None:
                    self.gave_up = True
                    raise told
            time.sleep(pause)
            pause = min(pause * 1.2, LONGEST_PAUSE_S)


def in_the_way(path: str, waited: float, ask: sqlite3.Connection | None, *, is_last: bool) -> StoreError | None:
    """Why the file cannot be had, as far as anybody can tell; None while it is worth waiting."""
    if has_no_locks(path):
        return StoreUnavailable(
            f"{path}: its file system has no locks (ENOLCK), and without them two processes would write at once; put "
            "the store on a local disk, or mount that one with locks (of NFS: with lockd, not `nolock`)"
        )
    holders, locked = leases_here(ask), lock_holders(path)
    still = [*filter(process_is_stopped, locked), *(found for found, (stopped, _) in holders.items() if stopped)]
    pid = next(iter([*still, *locked]), None)
    if pid is not None and process_is_stopped(pid) and (waited >= STOPPED_S or is_last):
        since = holders.get(pid, (True, ""))[1]
        return StoreBusy(
            f"{path} is held by process {pid} on {this_host()}, which was stopped in the middle of a commit"
            f"{since}; nobody could write for {waited:.0f} s: `kill -CONT {pid}` lets it go on, `kill -KILL {pid}` "
            "ends it and frees the store, and what it had committed stays"
        )
    if not is_last:
        return None
    who = "another process" if pid is None else f"process {pid} on {this_host()}"
    return StoreBusy(f"{path} was busy for {waited:.0f} s; {who} holds it; try again")


def has_no_locks(path: str) -> bool:
    """Whether the file system refuses locks as such: tried on the file for turns, where nobody has one of these."""
    if fcntl is None or path == ":memory:":
        return False
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(f"{path}-turn", flags, 0o600)
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno == errno.ENOLCK
    finally:
        os.close(descriptor)
    return False


def lock_holders(path: str) -> list[int]:
    """Other processes that have locked the file for writing, its log's writer first, as the kernel lists them.

    One that recovers the log, empties it or is the last to close it has other locks than the writer's. No file is
    opened for this: to close it would give up every lock that this process has on it.
    """
    inodes = set()
    for name in (f"{path}-shm", path):
        with suppress(OSError):
            inodes.add(str(Path(name).stat().st_ino))
    try:
        listed = Path("/proc/locks").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    found: list[tuple[bool, int]] = []
    for line in listed.splitlines():
        fields = line.split()
        if len(fields) != 8 or fields[1] != "POSIX" or fields[3] != "WRITE" or not fields[4].isdigit():
            continue
        if fields[5].rpartition(":")[2] in inodes and int(fields[4]) not in (0, os.getpid()):
            found.append((fields[6] != str(WRITE_LOCK), int(fields[4])))
    return [pid for _, pid in sorted(found)]


def leases_here(ask: sqlite3.Connection | None) -> dict[int, tuple[bool, str]]:
    """Processes of this host that hold runs: whether they are stopped, and their last sign of life, in words."""
    found: dict[int, tuple[bool, str]] = {}
    if ask is None:
        return found
    with suppress(sqlite3.Error, UnicodeDecodeError):
        rows = ask.execute(
            f"SELECT run_id, owner, expires_ms FROM runs WHERE status NOT IN {ENDED} AND owner LIKE ? "
            "ORDER BY expires_ms",
            (f"{this_host()}|%",),
        ).fetchall()
        for run_id, owner, expires in rows:
            pid = str(owner).split("|")[1]
            if pid.isdigit() and isinstance(expires, int):
                sign = f" (it holds run {run_id}; its last sign of life was at {say_ts(expires - LEASE_MS)})"
                found[int(pid)] = (is_stopped(str(owner)), sign)
    return found
