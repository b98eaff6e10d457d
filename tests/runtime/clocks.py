"""Other times."""

from __future__ import annotations

from reenact.values.clock import SystemClock, format_ts


class LaterClock(SystemClock):
    """The same world, some time later."""

    def __init__(self, later_s: float) -> None:
        self.later_ms = int(later_s * 1000)

    def now_ms(self) -> int:
        return super().now_ms() + self.later_ms

    def timestamp(self) -> str:
        return format_ts(self.now_ms())
