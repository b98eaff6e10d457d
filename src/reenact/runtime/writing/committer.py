"""Where commits run: in a writer thread, so that no loop waits for the disk; in the caller where nobody else waits.

A loop of Reenact's own fronts (`run`, a plain `with runtime.session()`) has nothing else to do while it drives one run
and one call: there a commit saves the way to a thread and back. Every other loop is the host's, or has work beside it.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from reenact.contracts.records import RunStatus
from reenact.runtime.effects.coroutines import OUR_LOOPS
from reenact.runtime.writing.writer_thread import WAITING, Act, Append, Order, WriterThread
from reenact.store.base import Lease, Store


class Done(Struct, frozen=True):
    """What the store gave back, and the cancellation that the caller has still to raise."""

    result: object
    interrupted: asyncio.CancelledError | None = None


class Committer:
    """Writes for all runs of a runtime. Units that are ready at the same time share a transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = WriterThread(store)
        self.driven: set[str] = set()
        """Runs that are being driven, and calls that go on beside another one of their run. A set, since runs of
        several threads come and go."""

    async def commit(self, work: Append | Act) -> Done:
        """What became of it, durable; raises what the store raises, for this unit alone.

        A caller that is cancelled meanwhile is kept until that is known, and told: it raises `interrupted` itself once
        its books are right.
        """
        loop, interrupted = asyncio.get_running_loop(), None
        if len(self.driven) <= 1 and loop in OUR_LOOPS:
            return Done(self._store.append(work[0], work[1], owner=work[2]) if isinstance(work, tuple) else work())
        order = Order(work, loop)
        self._thread.take(order)
        while order.result is WAITING:
            order.wake = loop.create_future()
            try:
                await order.wake
            except asyncio.CancelledError as cancelled:
                interrupted = cancelled
        if isinstance(order.result, Exception):
            raise order.result
        return Done(order.result, interrupted)

    async def release(self, lease: Lease, status: RunStatus | None) -> None:
        """Give a lease back, which is a transaction too."""
        done = await self.commit(lambda: self._store.release(lease, status))
        if done.interrupted is not None:
            raise done.interrupted

    def close(self) -> None:
        self._thread.close()
