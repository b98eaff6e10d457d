"""The event loop of a simulation: one thread, no waiting, and a seed that decides whose turn it is."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from contextlib import suppress
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any

EXECUTOR: ContextVar[int] = ContextVar("EXECUTOR", default=0)
"""Whose code runs. What an executor starts is its own: tasks, timers and threads take their context with them."""
LONGEST_TURN_S = 0.004


class SimulatedLoop(asyncio.BaseEventLoop):
    """The turns of one executor come in their order, as in any loop; between executors, everything is possible."""

    _scheduled: list[asyncio.TimerHandle]
    _ready: deque[asyncio.Handle]

    def __init__(self, draw: random.Random, *, most_turns: int = 200_000) -> None:
        super().__init__()
        self._draw = draw
        self._now = 0.0
        self._turns: dict[int, deque[asyncio.Handle]] = {}
        self._most_turns = most_turns
        self.turns = 0
        self.taken = blake2b(digest_size=8)
        """Of whose turn it was, turn by turn."""
        self.dead: set[int] = set()
        self.frozen: dict[int, float] = {}
        """Until when."""
        self.favourite = draw.random()
        """How often the executor that had the last turn has the next one."""
        self._last = 0
        self._tasks: list[asyncio.Task[Any]] = []
        """All of them: what is left of the dead must not be collected while others are at work."""
        self.set_task_factory(self._kept_task)

    def _kept_task(self, _: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=self, **options)
        self._tasks.append(task)
        return task

    def bury(self) -> None:
        """When all is over: what is left of the dead ends here, where nothing can come of it."""
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    task.get_coro().close()  # type: ignore[union-attr]
        self._tasks.clear()
        self.close()

    def time(self) -> float:
        return self._now

    # -- faults ------------------------------------------------------------------------------------------------------

    def kill(self, executor: int) -> None:
        """Nothing of it runs any more, not even what cleans up."""
        self.dead.add(executor)
        self._turns.pop(executor, None)

    def freeze(self, executor: int, seconds: float) -> None:
        self.frozen[executor] = max(self.frozen.get(executor, 0.0), self._now + seconds)

    @property
    def thaws_in(self) -> float:
        """Seconds until the last one that is frozen wakes up."""
        return max((until - self._now for who, until in self.frozen.items() if who not in self.dead), default=0.0)

    # -- turns -------------------------------------------------------------------------------------------------------

    def _run_once(self) -> None:  # in the place of the library's
        self._collect()
        ready = [who for who, turns in self._turns.items() if turns and self.frozen.get(who, 0.0) <= self._now]
        if not ready:
            self._pass_time()
            return
        who = self._last if self._last in ready and self._draw.random() < self.favourite else self._draw.choice(ready)
        self._last = who
        self.taken.update(bytes([who]))
        self.turns += 1
        if self.turns > self._most_turns:
            raise RuntimeError(f"it has not come to an end after {self.turns} turns")
        handle = self._turns[who].popleft()
        self._now += self._draw.random() * LONGEST_TURN_S
        if not handle.cancelled():
            handle._run()

    def _collect(self) -> None:
        """What became ready, to its executor; of the dead nothing."""
        while self._scheduled and (self._scheduled[0].cancelled() or self._scheduled[0].when() <= self._now):
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False
            if not timer.cancelled():
                self._ready.append(timer)
        while self._ready:
            handle = self._ready.popleft()
            who = handle._context.get(EXECUTOR, 0)
            if who not in self.dead:
                self._turns.setdefault(who, deque()).append(handle)

    def _pass_time(self) -> None:
        """To the next timer, or to when the next one wakes up."""
        wakes = [until for who, until in self.frozen.items() if until > self._now and self._turns.get(who)]
        timers = [self._scheduled[0].when()] if self._scheduled else []
        if not wakes and not timers:
            raise RuntimeError("nobody has anything to do, and somebody waits")
        self._now = max(self._now, min(wakes + timers))

    # -- what a loop has besides -------------------------------------------------------------------------------------

    def _process_events(self, event_list: Any) -> None:
        del event_list

    def _write_to_self(self) -> None:
        """Nobody sleeps: nothing has to be woken."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A dead executor leaves tasks behind that nobody looks at."""
