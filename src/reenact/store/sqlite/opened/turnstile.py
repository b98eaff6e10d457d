"""Whose turn it is to write to a file that many processes write to."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from weakref import finalize

from reenact.store.sqlite.trouble.waiting import SHORTEST_PAUSE_S

try:
    import fcntl
except ImportError:  # pragma: no cover  # only where the system has no such locks
    fcntl = None  # type: ignore[assignment]

PATIENCE_S = 2.0
FIRST_PAUSE_S = 0.003
AGING_S = 0.05
"""After waiting this long a process asks twice as often."""


class Turnstile:
    """Whose turn it is to write, when many processes write to one file: a place for the next writer.

    SQLite gives its write lock to whoever happens to ask when it is free, and lets those who wait ask less and less
    often: among twenty busy processes one may wait for seconds. Here a process becomes the next one first, by a lock on
    a file beside the store, which the system frees when it dies. Only the next asks SQLite, so nobody else can slip in;
    and those who wait to become it ask the more often the longer they have waited.

    It is about fairness alone. SQLite's own lock keeps writers apart, so a turn that cannot be had is simply done
    without: a process that was stopped while it was next holds the others up for a moment, not for good. Taken by
    `Connection._in_turn`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.descriptor: int | None = None
        """What the next writer locks; None where the system has no such locks, or nobody has written yet."""
        self.is_open = False

    def open(self) -> None:
        self.is_open = True
        if fcntl is not None and self._path != ":memory:":
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW  # a link is somebody else's file
            with suppress(OSError):
                self.descriptor = os.open(f"{self._path}-turn", flags, 0o600)
                self._closing = finalize(self, os.close, self.descriptor)  # whoever drops it need not close it
                self._closing.atexit = False

    def close(self) -> None:
        if self.descriptor is not None:
            self._closing()
            self.descriptor = None


def became_next(descriptor: int) -> bool:
    """Wait for the place; False after having waited long enough to go without."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) <= PATIENCE_S:
        time.sleep(max(SHORTEST_PAUSE_S, FIRST_PAUSE_S / (1 + waited / AGING_S)))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except OSError:
            return False
        return True
    return False
