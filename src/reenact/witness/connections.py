"""The connections of a witness: how long each may take, and which has to go where one more wants to come in."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from reenact.values.clock import SystemClock


@dataclass
class Waiting:
    until: float
    has_asked: bool = False
    """Its request is there, and is being answered."""


class Connections:
    """Closing one wakes the thread that reads from it; that thread then ends by itself."""

    def __init__(self, limit_s: float, now: Callable[[], float] = SystemClock.monotonic) -> None:
        self._limit_s = limit_s
        self._now = now
        self._lock = threading.Lock()
        self._open: dict[socket.socket, Waiting] = {}
        """In the order in which a request was waited for."""

    def wait_for(self, peer: socket.socket) -> None:
        """Its next request, which has the whole time again."""
        with self._lock:
            self._open.pop(peer, None)
            self._open[peer] = Waiting(self._now() + self._limit_s)

    def has_asked(self, peer: socket.socket) -> None:
        with self._lock:
            if peer in self._open:
                self._open[peer].has_asked = True

    def forget(self, peer: socket.socket) -> None:
        with self._lock:
            self._open.pop(peer, None)

    def close_oldest(self) -> bool:
        """Whether one was there that had not asked for anything yet."""
        with self._lock:
            oldest = next((peer for peer, waiting in self._open.items() if not waiting.has_asked), None)
            if oldest is not None:
                self._close(oldest)
            return oldest is not None

    def close_late(self) -> None:
        with self._lock:
            for peer in [peer for peer, waiting in self._open.items() if waiting.until <= self._now()]:
                self._close(peer)

    def _close(self, peer: socket.socket) -> None:
        del self._open[peer]
        with suppress(OSError):
            peer.shutdown(socket.SHUT_RDWR)
