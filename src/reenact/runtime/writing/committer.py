"""Where commits run: in a writer thread, so that no loop waits for the disk; in the caller where nobody else waits.

A loop of Reenact's own fronts (`run`, a plain `with runtime.session()`) has nothing else to do while it drives one run
and one call: there a commit saves the way to a thread and back. Every other loop is the host's, or has work beside it.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from reenact.contracts.records import RunStatus
from reenact.runtime.effects.coroutines import OUR_LOOPS
from reenact.runtime.writing.writer_thread import Order, WriterThread
from reenact.store.base import Appended, Lease, Store, Unit


class Committed(Struct, frozen=True):
    """A unit that is durable now, and the cancellation that its caller has still to raise."""

    unit: Appended
    interrupted: asyncio.CancelledError | None = None


class Committer:
    """Commits units of all runs of a runtime. Those that are ready at the same time share a transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = WriterThread(store)
        self.driven: set[str] = set()
        """Runs that are being driven, and calls that go on beside another one of their run. A set, since runs of
        several threads come and go."""

    async def commit(self, unit: Unit, lease: Lease | None, owner: str) -> Committed:
        """What became of the unit; raises what the store raises, for this unit alone.

        A caller that is cancelled meanwhile is kept until that is known, and told: it raises `interrupted` itself once
        its books are right.
        """
        if len(self.driven) <= 1 and asyncio.get_running_loop() in OUR_LOOPS:
            return Committed(self._store.append(unit, lease, owner=owner))
        order = Order((unit, lease, owner))
        interrupted = await self._thread.carry_out(order)
        assert isinstance(order.result, Appended)
        return Committed(order.result, interrupted)

    async def release(self, lease: Lease, status: RunStatus | None) -> None:
        """Give a lease back, which is a transaction too."""
        if len(self.driven) <= 1 and asyncio.get_running_loop() in OUR_LOOPS:
            self._store.release(lease, status)
            return
        interrupted = await self._thread.carry_out(Order(lambda: self._store.release(lease, status)))
        if interrupted is not None:
            raise interrupted

    def close(self) -> None:
        self._thread.close()
