"""Other times."""

from __future__ import annotations

import asyncio
import time

from reenact import Runtime
from reenact.contracts.records import UNFINISHED
from reenact.values.clock import SystemClock, format_ts
from tests.engines import places
from tests.engines.following import run_ahead


class LaterClock(SystemClock):
    """The same world, some time later."""

    def __init__(self, later_s: float) -> None:
        self.later_ms = int(later_s * 1000)

    def now_ms(self) -> int:
        return super().now_ms() + self.later_ms

    def monotonic(self) -> float:  # type: ignore[override]  # a function of the system's elsewhere
        return time.monotonic() + self.later_ms / 1000

    def timestamp(self) -> str:
        return format_ts(self.now_ms())


class HastyClock(LaterClock):
    """Its seconds are over in a moment: whoever goes by it takes leases of processes that live."""

    def monotonic(self) -> float:  # type: ignore[override]
        return time.monotonic() * 1000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.02))


def watched_for(runtime: Runtime, seconds: float) -> Runtime:
    """An executor with a `LaterClock` that has watched all leases for so long, and saw none renewed."""
    clock = runtime.clock
    assert isinstance(clock, LaterClock)
    for row in runtime.store.runs(status=UNFINISHED):
        runtime.store.free_in_s(row.run_id)
    clock.later_ms += int(seconds * 1000)
    if places.database is not None:  # leases go by its clock there
        run_ahead(runtime.store.url, clock.later_ms)
    return runtime
