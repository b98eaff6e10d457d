"""Where commits run: in a writer thread, so that no loop waits for the disk; in the caller where nobody else waits.

A loop of Reenact's own fronts (`run`, a plain `with runtime.session()`) has nothing else to do while it drives one run
and one call: there a commit saves the way to a thread and back, and so it does in a store in memory, which waits for no
disk. Every other loop is the host's, or has work beside it.

In the thread, what the runs of a loop have ready in one turn of it goes into one transaction, and so does what came
meanwhile. It is handed over at the end of the turn: a transaction is many short calls, and as long as the loop is at
work the thread has to win the interpreter back from it after each of them.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from msgspec import Struct

from reenact.contracts.records import RunStatus
from reenact.errors import StoreError
from reenact.runtime.effects.coroutines import OUR_LOOPS, loop_is_running
from reenact.store.base import Lease, Store, Unit

if TYPE_CHECKING:
    from reenact.runtime.writing.replay_log import ReplayLogs

IDLE_S = 2.0
"""A thread that has nothing to do for so long ends; the next commit starts another."""
WAITING = object()

Append = tuple[Unit, Lease | None, str]
"""A unit, the lease that it is written under, and whose that is."""
Act = Callable[[], object]
"""Another transaction of the store."""


class Order(Struct, eq=False):
    """What is to be written, and what became of it, which is known in the loop that waits for it."""

    work: Append | Act
    loop: asyncio.AbstractEventLoop
    result: object = WAITING
    wake: asyncio.Future[None] | None = None


class Done(Struct, frozen=True):
    """What the store gave back, and the cancellation that the caller has still to raise."""

    result: object
    interrupted: asyncio.CancelledError | None = None


class Committer:
    """Writes for all runs of a runtime. Units that are ready at the same time share a transaction."""

    def __init__(self, store: Store, replay_log: str | Path | None = None) -> None:
        self._store = store
        self._thread = WriterThread(store)
        self.logs: ReplayLogs | None = None
        """Where runs write their replay logs as they go."""
        if replay_log is not None:
            from reenact.runtime.writing.replay_log import ReplayLogs

            self.logs = ReplayLogs(store, Path(replay_log))
        self.driven: set[str] = set()
        """Runs that are being driven, and calls that go on beside another one of their run. A set, since runs of
        several threads come and go."""

    async def commit(self, work: Append | Act) -> Done:
        """What became of it, durable; raises what the store raises, for this unit alone.

        A caller that is cancelled meanwhile is kept until that is known, and told: it raises `interrupted` itself once
        its books are right.
        """
        loop, interrupted = asyncio.get_running_loop(), None
        if self._store.in_memory or (len(self.driven) <= 1 and loop in OUR_LOOPS):
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
        """Give a lease back, which is a transaction too. Also where its loop is gone, and nobody waits for anything."""
        if not loop_is_running():
            self._store.release(lease, status)
            return
        done = await self.commit(lambda: self._store.release(lease, status))
        if done.interrupted is not None:
            raise done.interrupted

    def close(self) -> None:
        self._thread.close()


class WriterThread:
    """Writes to a store while there is something to write. It never keeps a process from ending."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._ready: dict[asyncio.AbstractEventLoop, list[Order]] = {}
        """Of the turn that each loop is in."""
        self._orders: SimpleQueue[list[Order]] = SimpleQueue()
        self._is_running = False

    def take(self, order: Order) -> None:
        """In the loop of the order, which learns of its result in a later turn."""
        if self._process != os.getpid():  # of a parent's threads a forked child has none
            self._forget()
        ready = self._ready.get(order.loop)
        if ready is None:
            ready = self._ready[order.loop] = []
            order.loop.call_soon(self._hand_over, order.loop)
        ready.append(order)

    def close(self) -> None:
        """End the thread once it has done what it was given."""
        self._orders.put([])

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        orders = self._ready.pop(loop)
        with self._lock:
            if not self._is_running:
                try:
                    threading.Thread(target=self._work, daemon=True, name="reenact-writer").start()
                except RuntimeError as error:  # as many threads as there may be, or Python ends
                    tell(loop, [(order, StoreError(f"no thread can be started to write: {error}")) for order in orders])
                    return
                self._is_running = True
            self._orders.put(orders)

    def _work(self) -> None:
        while batch := self._next():
            done = self._done(batch)
            for loop in dict.fromkeys(order.loop for order in batch):
                tell(loop, [(order, result) for order, result in done if order.loop is loop])
            del batch, done  # nothing is held while it waits

    def _next(self) -> list[Order]:
        """All that waits; nothing when the thread is to end."""
        batch: list[Order] = []
        while not batch:
            with suppress(Empty):
                batch += self._orders.get(timeout=IDLE_S)
            while not self._orders.empty():
                batch += self._orders.get()
            with self._lock:
                if not batch and self._orders.empty():
                    self._is_running = False
                    break
        return batch

    def _done(self, batch: list[Order]) -> list[tuple[Order, object]]:
        """What became of each: one transaction for all units, in which one is refused alone; then the other acts."""
        units = [(order, order.work) for order in batch if isinstance(order.work, tuple)]
        acts = [(order, order.work) for order in batch if not isinstance(order.work, tuple)]
        results = self._appended([unit for _, unit in units]) if units else []
        done = [(order, result) for (order, _), result in zip(units, results, strict=True)]
        return [*done, *((order, outcome(act)) for order, act in acts)]

    def _appended(self, units: list[Append]) -> Sequence[object]:
        try:
            if len(units) > 1:
                return self._store.append_many(units)
            unit, lease, owner = units[0]
            return [self._store.append(unit, lease, owner=owner)]
        except Exception as error:  # noqa: BLE001  # whatever failed, every run that waits hears of it
            return [error] * len(units)


def outcome(act: Act) -> object:
    try:
        return act()
    except Exception as error:  # noqa: BLE001  # as above
        return error


def tell(loop: asyncio.AbstractEventLoop, done: list[tuple[Order, object]]) -> None:
    """In the loop that waits for them."""

    def deliver() -> None:
        for order, result in done:
            order.result = result
            if order.wake is not None and not order.wake.done():
                order.wake.set_result(None)

    try:
        loop.call_soon_threadsafe(deliver)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more
