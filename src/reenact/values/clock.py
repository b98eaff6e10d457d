"""The one door to time, ids and randomness. Tests and replay put another one in its place."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from datetime import UTC, datetime
from typing import Final, Protocol

from reenact.errors import UsageError
from reenact.values.keyed import KeyedRandom, keyed_random

__all__ = ["Door", "FixedDoor", "KeyedRandom", "SystemDoor", "format_ts", "keyed_random", "parse_ts"]


class Door(Protocol):
    """What the rest of Reenact may ask the world for."""

    def now_ms(self) -> int:
        """Unix time in milliseconds. May jump; never measure with it."""

    def timestamp(self) -> str:
        """The time of `now_ms` as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean something."""

    async def sleep(self, seconds: float) -> None:
        """Come back after `seconds`."""

    def uuid7(self) -> str:
        """A new UUIDv7, greater as a text than every one before it from this process."""

    def random_bytes(self, n: int) -> bytes:
        """`n` bytes that nobody can guess."""


_TS: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_LAST_MS: Final = 253402300799999  # 9999-12-31T23:59:59.999Z

_latest: tuple[int, str] = (0, "1970-01-01T00:00:00.000Z")


def format_ts(ms: int) -> str:
    """Unix milliseconds as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    global _latest  # noqa: PLW0603 - a cache of one, replaced as a whole: threads see the old pair or the new
    latest, text = _latest
    if latest != ms:
        seconds, millis = divmod(ms, 1000)
        if latest // 1000 != seconds:
            if not 0 <= ms <= _LAST_MS:
                raise UsageError(f"{ms} ms is no time between the years 1970 and 9999")
            text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        text = f"{text[:19]}.{millis:03d}Z"
        _latest = (ms, text)
    return text


def parse_ts(text: str) -> int:
    """Unix milliseconds of a time in the one form that Reenact writes; UsageError for any other."""
    if _TS.fullmatch(text) is None:
        raise UsageError("a time is written YYYY-MM-DDTHH:MM:SS.mmmZ")
    try:
        moment = datetime.fromisoformat(text[:19] + "+00:00")
    except ValueError as error:
        raise UsageError(f"no such time: {error}") from None
    return int(moment.timestamp()) * 1000 + int(text[20:23])


class _Uuid7Sequence:
    """Strictly rising UUIDv7: 48 bits of time, a counter of 42 bits, 32 random bits (RFC 9562, 6.2, method 1).

    The counter starts at random below half of its range in each new millisecond. When the clock stands still or
    goes back, the last time is kept and the counter goes on; should it overflow, the time is moved on by one.
    """

    def __init__(self) -> None:
        self.ms = -1
        """The millisecond of the last id. A later one takes 73 random bits, one in it 32."""
        self._counter = 0  # its upper 12 bits stand in `_head`, the others are counted on behind the variant's bits
        self._head = ""  # what most ids of a millisecond share

    def next(self, ms: int, random: int) -> str:
        """The next id; `random` holds 73 random bits."""
        if ms > self.ms:
            self._begin(ms, random)
        else:
            self._counter += 1
            if self._counter & 0x3FFFFFFF == 0:
                self._carry(random)
        low = f"{0x80000000 | self._counter & 0x3FFFFFFF:08x}{random & 0xFFFFFFFF:08x}"
        return f"{self._head}-{low[:4]}-{low[4:]}"

    def _begin(self, ms: int, random: int) -> None:
        self.ms = ms
        self._counter = random >> 32 & 0x1FFFFFFFFFF
        self._write_head()

    def _carry(self, random: int) -> None:
        if self._counter >> 42:
            self._begin(self.ms + 1, random)
        else:
            self._write_head()

    def _write_head(self) -> None:
        text = f"{self.ms << 16 | 0x7000 | self._counter >> 30:016x}"
        self._head = f"{text[:8]}-{text[8:12]}-{text[12:]}"


class _ProcessIds:
    """The ids of one process: shared by all doors, guarded for threads, started afresh in a forked child."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._lock = threading.Lock()
        self._sequence = _Uuid7Sequence()
        self._pool: list[int] = []  # 64 random bits each: a call to the system for every id would cost most of its time

    def next(self) -> str:
        with self._lock:
            pool, sequence, ms = self._pool, self._sequence, time.time_ns() // 1_000_000
            if len(pool) < 2:
                pool.extend(memoryview(os.urandom(4096)).cast("Q"))
            return sequence.next(ms, pool.pop() << 64 | pool.pop() if ms > sequence.ms else pool.pop())


_ids: Final = _ProcessIds()
# A child that went on with its parent's pool and counter would hand out its parent's ids again.
os.register_at_fork(after_in_child=_ids.reset)


class SystemDoor:
    """The real world."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def timestamp(self) -> str:
        return format_ts(time.time_ns() // 1_000_000)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def uuid7(self) -> str:
        return _ids.next()

    def random_bytes(self, n: int) -> bytes:
        return os.urandom(n)


class FixedDoor:
    """A world that stands still: the same calls give the same answers in every process.

    Time moves only through `sleep`, which returns at once and is remembered in `slept`, and `advance`.
    """

    def __init__(self, start_ms: int = 1_735_689_600_000, seed: str | int = 0) -> None:
        self.slept: list[float] = []
        self._start_ms = start_ms
        self._elapsed = 0.0
        self._lock = threading.Lock()
        self._ids = _Uuid7Sequence()
        self._id_stream = keyed_random("reenact.FixedDoor.uuid7", seed)
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
        with self._lock:
            return self._ids.next(self.now_ms(), int.from_bytes(self._id_stream.bytes(10), "big"))

    def random_bytes(self, n: int) -> bytes:
        with self._lock:
            return self._byte_stream.bytes(n)
