"""A process of a simulation: a runtime whose clock, threads, heartbeat and writer belong to the simulated loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any

from reenact import Registry
from reenact.errors import StoreError
from reenact.replay.runtime import Runtime
from reenact.runtime.effects import live
from reenact.runtime.effects.threads import THREADS, look_at, tell
from reenact.runtime.host_policy import HostPolicy
from reenact.runtime.writing.committer import Order, WriterThread
from reenact.runtime.writing.committer import tell as tell_written
from reenact.store.base import Lease
from reenact.store.heartbeat import INTERVAL_S
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import FixedClock
from tests.crash.harness import MANY_DEATHS
from tests.simulation.loop import EXECUTOR, SimulatedLoop
from tests.store.apart import another_process

EPOCH_MS = 1_735_689_600_000


class SimulatedClock(FixedClock):
    """The loop's time, seen by a clock that is wrong by some seconds and may be set."""

    def __init__(self, loop: SimulatedLoop, seed: str, wrong_by_s: float) -> None:
        self.wrong_by_s = wrong_by_s
        self._loop = loop
        super().__init__(seed=seed)

    def now_ms(self) -> int:
        return EPOCH_MS + int((self._loop.time() + self.wrong_by_s) * 1000)

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SimulatedHeartbeat:
    """As the thread does it: every so often, unless its process is frozen or dead."""

    def __init__(self, store: SqliteStore, loop: SimulatedLoop) -> None:
        self._store = store
        self._loop = loop
        self._leases: dict[str, Callable[[], Lease | None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def keep(self, run_id: str, lease: Callable[[], Lease | None]) -> None:
        self._leases[run_id] = lease
        if self._timer is None:
            self._timer = self._loop.call_later(INTERVAL_S, self._beat)

    def drop(self, run_id: str) -> None:
        self._leases.pop(run_id, None)
        if not self._leases and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        held = [lease for current in self._leases.values() if (lease := current()) is not None]
        try:
            if held:
                self._store.renew(held)
        except StoreError:
            pass  # as the thread does
        self._timer = self._loop.call_later(INTERVAL_S, self._beat)


class SimulatedWriter(WriterThread):
    """The writer's thread: it writes some time after it was told to, and is heard some time after that.

    `around` is called before and after each transaction: a process may die at either.
    """

    def __init__(self, store: SqliteStore, draw: random.Random, around: Callable[[str], None]) -> None:
        super().__init__(store)
        self._draw = draw
        self._around = around
        self._waiting: list[Order] = []

    def take(self, order: Order) -> None:
        self._waiting.append(order)
        if len(self._waiting) == 1:
            order.loop.call_later(self._draw.random() * 0.02, self._write)

    def _write(self) -> None:
        batch, self._waiting = self._waiting, []
        self._around("before a commit")
        if EXECUTOR.get() in batch[0].loop.dead:  # type: ignore[attr-defined]
            return
        done = self._done(batch)
        self._around("after a commit")
        loop = batch[0].loop
        loop.call_later(self._draw.random() * 0.02, tell_written, loop, done)

    def close(self) -> None:
        """There is no thread."""


class Executor:
    """`faults` is asked about every transaction: it may raise what a disk raises."""

    def __init__(
        self,
        number: int,
        loop: SimulatedLoop,
        path: Path,
        skills: Registry,
        draw: random.Random,
        *,
        wrong_by_s: float = 0.0,
        around: Callable[[str], None] = lambda _: None,
        fault: Callable[[], None] = lambda: None,
    ) -> None:
        self.number = number
        self.loop = loop
        self.draw = draw
        self.context = copy_context()
        self.context.run(EXECUTOR.set, number)
        self.clock = SimulatedClock(loop, f"{draw.random()}", wrong_by_s)
        with another_process():
            self.store = SqliteStore(str(path), clock=self.clock)
        self.runtime = Runtime(
            self.store, skills=skills, policy=HostPolicy(), max_redispatches=MANY_DEATHS, clock=self.clock
        )
        self.runtime.owner = f"machine-{number}|{number}|1|{draw.random()}"
        self.runtime.heartbeat = SimulatedHeartbeat(self.store, loop)  # type: ignore[assignment]
        self.runtime.committer._thread = SimulatedWriter(self.store, draw, around)
        self._break(fault)

    def _break(self, fault: Callable[[], None]) -> None:
        """Every transaction that is a run's own may fail, and then has written nothing."""
        store: Any = self.store
        for name in ("append", "append_many", "acquire", "renew", "release"):
            whole = getattr(store, name)

            def tried(*args: Any, _whole: Any = whole, **options: Any) -> Any:
                fault()
                return _whole(*args, **options)

            setattr(store, name, tried)

    def begin(self, work: Any) -> asyncio.Task[Any]:
        return self.context.run(self.loop.create_task, work)

    @property
    def is_alive(self) -> bool:
        return self.number not in self.loop.dead


# -- what the processes of a simulation do not share -------------------------------------------------------------------


class OwnDispatches:
    """The register of live dispatches, one for each executor."""

    def __init__(self) -> None:
        self._of: dict[int, dict[Any, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mine, name)

    @property
    def _mine(self) -> dict[Any, Any]:
        return self._of.setdefault(EXECUTOR.get(), {})

    def __getitem__(self, key: Any) -> Any:
        return self._mine[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._mine[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._mine[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._mine


class OneThread:
    """While it is entered, what threads would do is done in turns of the loop."""

    def __init__(self, loop: SimulatedLoop, draw: random.Random) -> None:
        self._loop = loop
        self._draw = draw

    def __enter__(self) -> None:
        self._dispatches = live.DISPATCHES
        live.DISPATCHES = OwnDispatches()  # type: ignore[assignment]
        THREADS.run = self._run  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        live.DISPATCHES = self._dispatches
        del THREADS.run

    def _run(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Some time later it happens, and some time after that it is heard of."""
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(look_at)

        def happen() -> None:
            result, error = None, None
            try:
                result = function()
            except BaseException as raised:  # as a thread of ours does
                error = raised
            self._loop.call_later(self._draw.random() * 0.2, tell, self._loop, future, result, error)

        self._loop.call_later(self._draw.random() * 0.2, happen)
        return future
