"""Whose turn it is to write, when many processes write to one file.

SQLite gives its write lock to whoever happens to ask when it is free, and lets those who wait ask less and less often:
among twenty busy processes one may wait for seconds. Here a process becomes the next one first. Only the next asks
SQLite, so nobody else can slip in; and those who wait to become it ask the more often the longer they have waited.

It is about fairness alone. SQLite's own lock keeps writers apart, so a turn that cannot be had is simply done without:
a process that was stopped while it was next holds the others up for a moment, not for good.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

try:
    import fcntl
except ImportError:  # pragma: no cover  # only where the system has no such locks
    fcntl = None  # type: ignore[assignment]

PATIENCE_S = 2.0
FIRST_PAUSE_S = 0.003
SHORTEST_PAUSE_S = 0.0002
AGING_S = 0.05
"""After waiting this long a process asks twice as often."""


class Turnstile:
    """One place for the next writer, kept by a lock on a file beside the store. Freed by the system when it dies."""

    def __init__(self, path: str) -> None:
        self._descriptor: int | None = None
        if fcntl is not None and path != ":memory:":
            with suppress(OSError):
                self._descriptor = os.open(f"{path}-turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def next(self) -> Iterator[None]:
        """Inside, this process is the next writer, or has waited long enough to go without."""
        held = self.enter()
        try:
            yield
        finally:
            if held:
                self.leave()

    def enter(self) -> bool:
        """Become the next writer, which is then to be left; False after having waited long enough to go without."""
        descriptor = self._descriptor
        if descriptor is None:
            return False
        began = time.monotonic()
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited = time.monotonic() - began
                if waited > PATIENCE_S:
                    return False
                time.sleep(max(SHORTEST_PAUSE_S, FIRST_PAUSE_S / (1 + waited / AGING_S)))
            except OSError:
                return False
            else:
                return True

    def leave(self) -> None:
        assert self._descriptor is not None
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
