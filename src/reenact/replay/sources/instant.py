"""A clock whose `sleep` returns at once: in a replay nobody waits."""

from __future__ import annotations

import asyncio

from reenact.values.clock import Door


class InstantDoor:
    """The given door, but `sleep` returns at once."""

    def __init__(self, door: Door) -> None:
        self.now_ms = door.now_ms
        self.timestamp = door.timestamp
        self.monotonic = door.monotonic
        self.uuid7 = door.uuid7
        self.random_bytes = door.random_bytes

    async def sleep(self, _seconds: float, /) -> None:
        await asyncio.sleep(0)
