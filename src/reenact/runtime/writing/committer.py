"""How units become durable: at once while one run is active, those of a moment in one transaction when several are."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from reenact.store.base import Lease, Store, Unit


class Waiting:
    """A unit on its way, and what became of it."""

    __slots__ = ("lease", "owner", "result", "unit", "wake")

    def __init__(self, unit: Unit, lease: Lease | None, owner: str) -> None:
        self.unit = unit
        self.lease = lease
        self.owner = owner
        self.result: Lease | Exception | None = None
        self.wake: asyncio.Future[None] | None = None


class Committed(Struct, frozen=True):
    """The lease under which a unit is durable now, and the cancellation that its caller has still to raise."""

    lease: Lease
    interrupted: asyncio.CancelledError | None = None


class Committer:
    """Commits units of all runs of a process, each in the loop that its run lives in.

    What several runs have ready in one turn of their loop goes into one transaction, behind their own work. No thread
    of its own does it: a transaction is many short calls, and a thread would have to win the interpreter back from the
    loop after each of them.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.active = 0
        """Runs that are being driven; set by the runtime."""
        self._ready: dict[asyncio.AbstractEventLoop, list[Waiting]] = {}

    async def commit(self, unit: Unit, lease: Lease | None, owner: str) -> Committed:
        """What became of the unit; raises what the store raises, for this unit alone.

        A caller that is cancelled meanwhile is kept until that is known, and told: it raises `interrupted` itself once
        its books are right.
        """
        if self.active <= 1:
            return Committed(self._store.append(unit, lease, owner=owner))
        loop = asyncio.get_running_loop()
        waiting, interrupted = Waiting(unit, lease, owner), None
        ready = self._ready.get(loop)
        if ready is None:
            ready = self._ready[loop] = []
            loop.call_soon(self._commit_ready, loop)
        ready.append(waiting)
        while waiting.result is None:
            waiting.wake = loop.create_future()
            try:
                await waiting.wake
            except asyncio.CancelledError as cancelled:
                interrupted = cancelled
        if isinstance(waiting.result, Exception):
            raise waiting.result
        return Committed(waiting.result, interrupted)

    def _commit_ready(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = self._ready.pop(loop)
        results: list[Lease | Exception]
        try:
            results = self._store.append_many([(item.unit, item.lease, item.owner) for item in batch])
        except Exception as error:  # noqa: BLE001  # whatever failed, every waiting run hears of it
            results = [error] * len(batch)
        for item, result in zip(batch, results, strict=True):
            item.result = result
            if item.wake is not None and not item.wake.done():
                item.wake.set_result(None)
