"""Tests keep their files in memory where there is room: what dies here is a process, and never the machine.

A commit waits for the disk, some milliseconds each time; ten thousand tests make hundreds of thousands of them. What
becomes of files when the power goes is asked where writes are held back on purpose, and not of the disk.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
ROOM: Final = 6 << 30
"""More than all tests together write, and what passed is taken away at once. Whoever names a TMPDIR gets that."""


def begin() -> None:
    """For this process and all that it starts."""
    if "TMPDIR" not in os.environ and has_room():
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def folder() -> str | None:
    """Where that is, if tests keep their files there."""
    return str(MEMORY) if os.environ.get("TMPDIR") == str(MEMORY) else None


def has_room() -> bool:
    if not os.access(MEMORY, os.W_OK):
        return False
    place = os.statvfs(MEMORY)
    if place.f_flag & os.ST_NOEXEC:
        return False  # tests start programs that they have written
    return min(place.f_bavail * place.f_frsize, free_memory()) > ROOM


def free_memory() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0
