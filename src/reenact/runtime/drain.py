"""Drain: a process that is to end gives back its runs between two steps, and begins nothing new."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from reenact.errors import Draining, UsageError
from reenact.runtime.effects.coroutines import GRACE_S
from reenact.values.clock import Clock

DRAIN_GRACE_S: Final = 20.0
"""What calls in flight have to end. Ten seconds less than most who send SIGTERM wait before they kill."""
LOOK_S: Final = 0.02


class Drain:
    """Whether an engine drains, and what of it is still under way."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.asked = False
        self._until = 0.0
        """When the grace is over, on the monotonic clock."""
        self._limits: dict[asyncio.Timeout, tuple[asyncio.AbstractEventLoop, bool]] = {}
        """Of what ends with the grace, or at once, each with its loop."""
        self.held: set[str] = set()
        """Runs that somebody here works on."""
        self.late: set[str] = set()
        """Runs whose call in flight had not ended when the grace was over."""

    def ask(self, grace_s: float) -> None:
        """From any thread, and from a signal handler. The first one to ask says how long it may take."""
        if not grace_s >= 0:
            raise UsageError("grace_s is a number of seconds from 0 on")
        if self.asked:
            return
        self._until = self._clock.monotonic() + grace_s
        self.asked = True
        for limit, (loop, at_once) in list(self._limits.items()):
            with suppress(RuntimeError):  # its loop is closed
                loop.call_soon_threadsafe(self._set, limit, loop, at_once)

    def refuse(self) -> None:
        """Before anything is begun."""
        if self.asked:
            raise Draining("this runtime drains: nothing new begins, and its runs are given back between two steps")

    @asynccontextmanager
    async def limit(self, run_id: str | None = None) -> AsyncIterator[None]:
        """What goes on in the block ends with the grace, as if it was cancelled; without a run at once."""
        loop = asyncio.get_running_loop()
        limit, at_once = asyncio.timeout(None), run_id is None
        self._limits[limit] = (loop, at_once)
        try:
            async with limit:
                if self.asked:
                    self._set(limit, loop, at_once)
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            if run_id is not None:
                self.late.add(run_id)
                raise Draining(
                    "the call in flight had not ended when the grace was over; it is treated as after a crash"
                ) from None
        finally:
            del self._limits[limit]

    def _set(self, limit: asyncio.Timeout, loop: asyncio.AbstractEventLoop, at_once: bool) -> None:  # noqa: FBT001
        if limit in self._limits and not limit.expired():
            with suppress(RuntimeError):  # it is being left
                limit.reschedule(loop.time() + (0 if at_once else self._left_s))

    @property
    def _left_s(self) -> float:
        return max(0.0, self._until - self._clock.monotonic())

    async def sleep(self, seconds: float) -> None:
        """Unless, or until, it drains."""
        async with self.limit():
            await self._clock.sleep(seconds)

    def wait(self) -> list[str]:
        """Until nothing is under way, or it is too late; the runs that are under way even then."""
        never = threading.Event()
        while self.held and self._is_awaited:
            never.wait(LOOK_S)
        return sorted(self.held | self.late)

    async def wait_async(self) -> list[str]:
        while self.held and self._is_awaited:  # noqa: ASYNC110 - what is waited for ends in other threads too
            await asyncio.sleep(LOOK_S)
        return sorted(self.held | self.late)

    @property
    def _is_awaited(self) -> bool:
        """What is cancelled has some time to clean up behind itself."""
        return self._clock.monotonic() < self._until + (GRACE_S if self._limits else 0)
