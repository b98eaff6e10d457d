"""Who holds a lease: host, process and its start, so that a dead owner on this host is seen at once."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

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


def owner_name(nonce: str) -> str:
    pid = os.getpid()
    return f"{platform.node()}|{pid}|{process_started(pid)}|{nonce}"


def owner_is_gone(owner: str) -> bool:
    """True only when the owner was a process of this host that no longer runs."""
    parts = owner.split("|")
    if len(parts) != 4 or parts[0] != platform.node() or not parts[1].isdigit():
        return False
    return process_started(int(parts[1])) != parts[2]
