"""Tests fork in a process that has threads of others: leftovers of earlier tests, and those of the test runner.

A lock of some library that a thread holds at that instant is never given back in the child; nobody knows all of them.
But a thread that sleeps is at rest: so a fork of a test waits a moment until all others do. It is no part of what is
tested: where threads are meant to be at work, they are, and the fork comes all the same.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Final

TASKS: Final = Path("/proc/self/task")
PATIENCE_S: Final = 0.25
LOOK_S: Final = 0.0005
LOOKS: Final = 2
"""So many in a row must find everybody at rest: one alone may meet a thread that waits for Python's own lock."""


def others_sleep() -> bool:
    own = str(threading.get_native_id())
    for task in TASKS.iterdir():
        if task.name == own:
            continue
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False  # it has just ended
        if state != "S":
            return False
    return True


def wait() -> None:
    until = time.monotonic() + PATIENCE_S
    found = 0
    while found < LOOKS and time.monotonic() < until:
        time.sleep(LOOK_S)
        found = found + 1 if others_sleep() else 0


def begin() -> None:
    """From here on, every fork of this process. Elsewhere than on Linux nobody tells what threads do."""
    if TASKS.is_dir():
        os.register_at_fork(before=wait)
