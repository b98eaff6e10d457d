"""Keeps the log up with the seals: within a second after a run has ended, and outside of its commit."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

from reenact.errors import ReenactError

DELAY_S: Final = 0.25
"""Seals of this time share a checkpoint."""
PATIENCE_S: Final = 5.0


class Follower:
    """Does `act` soon after it is told, in a thread that is gone again then. What goes wrong is kept, and held up by
    nothing: whoever asks for a checkpoint later is told."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._lock = threading.Lock()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_told = False
        self._process = os.getpid()
        self.trouble: Exception | None = None
        FOLLOWERS.add(self)

    def tell(self) -> None:
        with self._lock:
            if self._is_told or self._hurry.is_set():
                return
            self._is_told = True
            self._thread = threading.Thread(target=self._follow, name="reenact-log", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or Python ends: the next one that is asked for a checkpoint makes it
            self._is_told = False

    def _follow(self) -> None:
        self._hurry.wait(DELAY_S)
        with self._lock:
            self._is_told = False
        try:
            self._act()
            self.trouble = None
        except (ReenactError, OSError) as error:
            self.trouble = error

    def close(self) -> None:
        """What was told and not done yet is done now."""
        if self._process != os.getpid():
            return
        self._hurry.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)


FOLLOWERS: WeakSet[Follower] = WeakSet()


@atexit.register
def close_all() -> None:
    for follower in list(FOLLOWERS):
        follower.close()
