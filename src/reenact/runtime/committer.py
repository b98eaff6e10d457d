"""How units become durable: in the caller while one run is active, by one writer with group commit when several are."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass

from reenact.store.base import Lease, Store, Unit


@dataclass(slots=True)
class Waiting:
    unit: Unit
    lease: Lease | None
    owner: str
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Lease]


@dataclass(frozen=True, slots=True)
class Committed:
    """The lease under which a unit is durable now, and the cancellation that its caller has still to raise."""

    lease: Lease
    interrupted: asyncio.CancelledError | None = None


class Committer:
    """Commits units of all runs of a process. A thread hop costs more than a lone commit, so one run pays none."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.active = 0
        """Runs that are being driven; set by the runtime."""
        self._lock = threading.Condition()
        self._queue: list[Waiting] = []
        self._thread: threading.Thread | None = None

    async def commit(self, unit: Unit, lease: Lease | None, owner: str) -> Committed:
        """What became of the unit; raises what the store raises, for this unit alone.

        A caller that is cancelled meanwhile is kept until that is known, and told: it raises `interrupted` itself once
        its books are right.
        """
        if self.active <= 1:
            return Committed(self._store.append(unit, lease, owner=owner))
        loop = asyncio.get_running_loop()
        waiting = Waiting(unit, lease, owner, loop, loop.create_future())
        with self._lock:
            self._queue.append(waiting)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True, name="reenact-writer")
                self._thread.start()
            self._lock.notify()
        interrupted = None
        while not waiting.done.done():
            try:
                await asyncio.wait([waiting.done])
            except asyncio.CancelledError as cancelled:
                interrupted = cancelled
        return Committed(waiting.done.result(), interrupted)

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self._queue:
                    if not self._lock.wait(timeout=5):
                        self._thread = None
                        return
                batch, self._queue = self._queue, []
            try:
                results = self._store.append_many([(item.unit, item.lease, item.owner) for item in batch])
            except Exception as error:  # noqa: BLE001  # whatever failed, every waiting run hears of it
                results = [error] * len(batch)
            for item, result in zip(batch, results, strict=True):
                with suppress(RuntimeError):  # its loop is closed: nobody waits any more
                    item.loop.call_soon_threadsafe(deliver, item.done, result)


def deliver(done: asyncio.Future[Lease], result: Lease | Exception) -> None:
    if done.done():
        return
    if isinstance(result, Exception):
        done.set_exception(result)
    else:
        done.set_result(result)
