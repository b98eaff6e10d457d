"""A clock whose `sleep` returns at once: in a replay nobody waits."""

from __future__ import annotations

import asyncio

from reenact.values.clock import Clock


class InstantClock:
    """The given clock, but `sleep` returns at once."""

    def __init__(self, clock: Clock) -> None:
        self.now_ms = clock.now_ms
        self.timestamp = clock.timestamp
        self.monotonic = clock.monotonic
        self.uuid7 = clock.uuid7
        self.random_bytes = clock.random_bytes

    async def sleep(self, _seconds: float, /) -> None:
        await asyncio.sleep(0)
