"""Keeps the leases of running runs alive from a thread of its own, so that a busy loop does not lose them.

Whatever is wrong with one run costs no other its lease.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from reenact.errors import StoreError
from reenact.store.base import Lease, Store

INTERVAL_S = 3.0


class Heartbeat:
    """Renews every three seconds what it is given. A lease that was lost is simply not renewed: the fence will tell."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._leases: dict[str, Callable[[], Lease | None]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, run_id: str, lease: Callable[[], Lease | None]) -> None:
        """StoreError where no thread can be started for it."""
        with self._lock:
            if self._thread is None:
                self._stop.clear()
                thread = threading.Thread(target=self._beat, daemon=True, name="reenact-heartbeat")
                try:
                    thread.start()
                except RuntimeError as error:  # as many threads as there may be, or Python ends
                    raise StoreError(f"no thread can be started to keep a lease: {error}") from None
                self._thread = thread
            self._leases[run_id] = lease

    def drop(self, run_id: str) -> None:
        with self._lock:
            self._leases.pop(run_id, None)
            if not self._leases and self._thread is not None:
                self._stop.set()
                self._thread = None

    def _beat(self) -> None:
        stop = self._stop
        while not stop.wait(INTERVAL_S):
            with self._lock:
                held = [lease for current in self._leases.values() if (lease := current()) is not None]
            if held:
                self._renew(held)

    def _renew(self, held: list[Lease]) -> None:
        try:
            self._store.renew(held)
        except StoreError:
            return  # the next append meets the same trouble, and says so
        except Exception:  # noqa: BLE001  # cells of any type: that run's own trouble, which its next append meets
            if len(held) > 1:
                for lease in held:
                    self._renew([lease])
