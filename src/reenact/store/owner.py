"""Who holds a lease: host, process and its start, so that a dead owner on this host is seen at once."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

FIRST_NUMBERS: Final = "pid:[4026531836]"
"""The namespace of process numbers that Linux starts with; every container has another."""
DEAD: Final = ("Z", "X", "x")
"""What the kernel calls a process that has died and is only waiting to be collected."""


def process_started(pid: int) -> str | None:
    """When a process of this host started, as the kernel counts; None when there is none, or it died and nobody
    has collected it yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return portable_started(pid)
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in DEAD else fields[19]


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
