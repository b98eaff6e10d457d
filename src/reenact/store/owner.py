"""Who holds a lease, and whether it lives: seen at once of a process of this host, of any other by watching.

No clock but one's own is believed. A renewal changes the lease's row, whatever the holder's clock says; whoever has
seen a row unchanged for as long as a lease lasts, by a clock of its own that never goes back, may take it over.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from reenact.errors import LockAcquireFailed
from reenact.store.base import LEASE_MS
from reenact.values.clock import Clock, say_ts

FIRST_NUMBERS: Final = "pid:[4026531836]"
"""The namespace of process numbers that Linux starts with; every container has another."""
DEAD: Final = ("Z", "X", "x")
"""What the kernel calls a process that has died and is only waiting to be collected."""
STOPPED: Final = ("T", "t")
"""By a signal, or by a debugger: it does nothing until it is told to go on."""
SLACK_MS: Final = 60_000
"""Clocks of two machines that are set may still differ by so much."""
MOST_WATCHED: Final = 10_000
POLL_S: Final = 0.25


def process_stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat behind the name, from the state on; None where there are none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()


def process_started(pid: int) -> str | None:
    """When a process of this host started, as the kernel counts; None when there is none, or it died and nobody
    has collected it yet."""
    fields = process_stat(pid)
    if fields is None:
        return portable_started(pid)
    return None if fields[0] in DEAD else fields[19]


def process_is_stopped(pid: int) -> bool:
    """Whether there is such a process here, and it stands still until somebody lets it go on."""
    fields = process_stat(pid)
    return fields is not None and fields[0] in STOPPED


def portable_started(pid: int) -> str | None:
    """Without /proc only life itself can be asked for."""
    if Path("/proc/self").exists():
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return "unknown"
    return "unknown"


def this_host() -> str:
    """Where a process's number means what it means here: the host's name, and in a container which one it is.

    Containers may have the name of their host, and each counts its processes from 1.
    """
    try:
        numbers = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        return platform.node()
    return platform.node() if numbers == FIRST_NUMBERS else f"{platform.node()}/{numbers.strip('pid:[]')}"


def owner_name(nonce: str) -> str:
    pid = os.getpid()
    return f"{this_host()}|{pid}|{process_started(pid)}|{nonce}"


def owner_is_gone(owner: str) -> bool:
    """True only when the owner was a process of this host, and of this container, that no longer runs."""
    parts = owner.split("|")
    if len(parts) != 4 or parts[0] != this_host() or not parts[1].isdigit():
        return False
    pid = int(parts[1])
    started = process_started(pid)
    return started != parts[2] and not (started is None and is_hidden(pid))


def is_out_of_sight(owner: str) -> bool:
    """Whether the owner is a process of another host or container, of which nothing can be seen from here."""
    parts = owner.split("|")
    return len(parts) == 4 and parts[1].isdigit() and parts[0] != this_host()


def is_hidden(pid: int) -> bool:
    """Whether there is such a process, of another user, that /proc does not show (`hidepid`)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def is_stopped(owner: str) -> bool:
    """Whether the owner is a process of this host that was stopped, and not ended."""
    parts = owner.split("|")
    return (
        len(parts) == 4
        and parts[0] == this_host()
        and parts[1].isdigit()
        and process_is_stopped(int(parts[1]))
        and not owner_is_gone(owner)
    )


def process_of(owner: str) -> str:
    """In words: host and process."""
    return " process ".join(owner.split("|")[:2])


class Held(NamedTuple):
    """A lease as it stands in its row."""

    owner: str
    token: int
    expires_ms: int

    def is_doubtful(self, now_ms: int) -> bool:
        """Whether it is worth watching: its holder cannot be seen from here, stands still, or its time is odd."""
        in_time = now_ms < self.expires_ms <= now_ms + LEASE_MS + SLACK_MS
        return not in_time or is_out_of_sight(self.owner) or is_stopped(self.owner)


class Watch:
    """How long leases have stood without a renewal, as far as this process has seen, by its own clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[Held, float]] = {}

    def left_s(self, run_id: str, held: Held) -> float:
        """Seconds after which whoever wants the run may take it, unless its lease is renewed meanwhile."""
        now = self._clock.monotonic()
        seen = self._seen.get(run_id)
        if seen is None or seen[0] != held:
            self._seen.pop(run_id, None)
            if len(self._seen) >= MOST_WATCHED:
                self._seen.pop(next(iter(self._seen)), None)
            seen = self._seen[run_id] = (held, now)
        return LEASE_MS / 1000 - (now - seen[1])

    def forget(self, run_id: str) -> None:
        self._seen.pop(run_id, None)


class Watched(Protocol):
    """As much of a store as watching needs."""

    def free_in_s(self, run_id: str) -> float | None: ...


async def until_known(store: Watched, clock: Clock, run_id: str) -> None:
    """Wait until it is known whether whoever holds the run still works, where that cannot be seen at once.

    It renews its lease, and then it does; or it does not for as long as a lease lasts, and then the run is free.
    """
    left = store.free_in_s(run_id)
    while left is not None and left > 0:
        await clock.sleep(min(left, POLL_S))
        before, left = left, store.free_in_s(run_id)
        if left is not None and left >= before:  # it was renewed
            return


def in_other_hands(run_id: str, held: Held, now_ms: int, left_s: float) -> LockAcquireFailed:
    """Who has the run, since when nothing was heard of it, and what to do."""
    who, sign = process_of(held.owner), f"its last sign of life was at {say_ts(held.expires_ms - LEASE_MS)}"
    told = f"run {run_id} is being worked on by {who}; {sign}"
    if not held.is_doubtful(now_ms):
        return LockAcquireFailed(f"{told}; wait, or stop it")
    if is_stopped(held.owner):
        pid = held.owner.split("|")[1]
        told += f"; that process is stopped: `kill -CONT {pid}` lets it go on, `kill -KILL {pid}` ends it"
    elif held.expires_ms > now_ms + LEASE_MS + SLACK_MS:
        told += ", by a clock that runs ahead of this one"
    return LockAcquireFailed(
        f"{told}; it is free in {left_s:.0f} s unless it renews its lease, "
        f"and at once after `reenact break-lease {run_id} --reason '…'`",
        free_in_s=left_s,
    )
