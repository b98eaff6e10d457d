"""Clock, ids and randomness behind one interface, `Clock`: the one door to them, replaced in tests and replays."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Protocol

from reenact.errors import UsageError
from reenact.values.keyed import KeyedRandom, keyed_random

__all__ = ["Clock", "FixedClock", "KeyedRandom", "SystemClock", "format_ts", "keyed_random", "parse_ts"]


class Clock(Protocol):
    """A clock with ids and random bytes: what the rest of Reenact may ask the world for."""

    def now_ms(self) -> int:
        """Unix time in milliseconds. May jump; never measure with it."""

    def timestamp(self) -> str:
        """The time of `now_ms` as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean something."""

    async def sleep(self, seconds: float, /) -> None:
        """Come back after `seconds`."""

    def uuid7(self) -> str:
        """A new UUIDv7, greater as a text than every one before it from this process."""

    def random_bytes(self, n: int) -> bytes:
        """`n` bytes that nobody can guess."""


_TS: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_LAST_SECOND: Final = 253402300799  # 9999-12-31T23:59:59Z


@lru_cache(maxsize=8)  # most times that are written lie in the second of the one before
def _second(seconds: int) -> str:
    if not 0 <= seconds <= _LAST_SECOND:
        raise UsageError(
            f"{seconds} s since 1970 is no time between the years 1970 and 9999; if the clock says so, set it"
        )
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def format_ts(ms: int) -> str:
    """Unix milliseconds as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    return f"{_second(ms // 1000)}.{ms % 1000:03d}Z"


def say_ts(ms: int) -> str:
    """The same of any number, for whoever reads it."""
    return format_ts(ms) if 0 <= ms // 1000 <= _LAST_SECOND else f"{ms} ms, no time between the years 1970 and 9999"


def parse_ts(text: str) -> int:
    """Unix milliseconds of a time in the one form that Reenact writes; UsageError for any other."""
    if _TS.fullmatch(text) is None:
        raise UsageError("a time is written YYYY-MM-DDTHH:MM:SS.mmmZ")
    try:
        moment = datetime.fromisoformat(text[:19] + "+00:00")
    except ValueError as error:
        raise UsageError(f"no such time: {error}") from None
    return int(moment.timestamp()) * 1000 + int(text[20:23])


def elapsed_ms(began: str, ended: str) -> int:
    """Milliseconds from one such time to another, 0 where the clock went back."""
    if began[:19] == ended[:19]:  # nearly always in the same second
        return max(int(ended[20:23]) - int(began[20:23]), 0)
    return max(parse_ts(ended) - parse_ts(began), 0)


class Uuid7Sequence:
    """Strictly rising UUIDv7: 48 bits of time, a counter of 42 bits, 32 random bits (RFC 9562, 6.2, method 1).

    The counter starts at random below half of its range in each new millisecond. When the clock stands still or
    goes back, the last time is kept and the counter goes on; should it overflow, the time is moved on by one.
    Threads may share one.
    """

    def __init__(self, now_ns: Callable[[], int], random_bytes: Callable[[int], bytes]) -> None:
        self._now_ns = now_ns
        self._random_bytes = random_bytes
        self.begin_again()

    def begin_again(self) -> None:
        self._lock = threading.Lock()
        self._ms = 0  # a clock that stands before 1970 counts on from there
        self._counter = 0

    def next(self) -> str:
        with self._lock:
            ms, random = self._now_ns() // 1_000_000, self._random_bytes(10)
            counter = self._counter + 1
            if ms > self._ms or counter >> 42:
                self._ms = max(ms, self._ms + 1)
                if self._ms >> 48:
                    raise UsageError("the clock is beyond the year 10889, and ids have no room for that; set it")
                counter = int.from_bytes(random[:6], "big") & 0x1FFFFFFFFFF
            self._counter = counter
            head = (self._ms << 16 | 0x7000 | counter >> 30) << 32 | 0x80000000 | counter & 0x3FFFFFFF
        text = (head.to_bytes(12, "big") + random[6:]).hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_ids: Final = Uuid7Sequence(time.time_ns, os.urandom)  # reenact: ignore[RN202,RN203] the one door to both
"""The ids of this process, whoever asks for one."""
# A child that went on with its parent's counter could hand out its parent's ids again; its lock may be held for ever.
os.register_at_fork(after_in_child=_ids.begin_again)


class SystemClock:
    """The system's clock, ids and random bytes. What the system itself answers is not wrapped once more."""

    monotonic = staticmethod(time.monotonic)
    uuid7 = staticmethod(_ids.next)
    random_bytes = staticmethod(os.urandom)  # reenact: ignore[RN202] the one door to chance

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000  # reenact: ignore[RN203] the one door to time

    def timestamp(self) -> str:
        ms = time.time_ns() // 1_000_000  # reenact: ignore[RN203] the one door to time
        return f"{_second(ms // 1000)}.{ms % 1000:03d}Z"

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class FixedClock:
    """A clock that stands still, for tests: the same calls give the same answers in every process.

    Time moves only through `sleep`, which returns at once and is remembered in `slept`, and `advance`.
    """

    def __init__(self, start_ms: int = 1_735_689_600_000, seed: str | int = 0) -> None:
        self.slept: list[float] = []
        self._start_ms = start_ms
        self._elapsed = 0.0
        self._lock = threading.Lock()
        self._ids = Uuid7Sequence(
            lambda: self.now_ms() * 1_000_000, keyed_random("reenact.FixedDoor.uuid7", seed).bytes
        )
        self._byte_stream = keyed_random("reenact.FixedDoor.random_bytes", seed)

    def now_ms(self) -> int:
        return self._start_ms + round(self._elapsed * 1000)

    def timestamp(self) -> str:
        return format_ts(self.now_ms())

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(max(seconds, 0.0))
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Move both clocks on."""
        with self._lock:
            self._elapsed += seconds

    def uuid7(self) -> str:
        return self._ids.next()

    def random_bytes(self, n: int) -> bytes:
        with self._lock:
            return self._byte_stream.bytes(n)
