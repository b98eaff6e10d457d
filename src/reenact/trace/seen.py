"""The ids of calls that a log has named, however many: in memory as far as a bound, then as sorted parts of a file.

An id that comes again soon is found at once, any other at the end of the log; either way it is found.
"""

from __future__ import annotations

import heapq
import os
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from typing import IO, Final, NamedTuple

MOST_IN_MEMORY: Final = 1 << 16
_KEY: Final = 16
_RECORD: Final = _KEY + 16
_BLOCK: Final = _RECORD * 1024


class Place(NamedTuple):
    """A line of the log and the byte at which it begins."""

    line: int
    offset: int


class SeenIds:
    def __init__(self, most: int = MOST_IN_MEMORY) -> None:
        self._most = most
        self._recent: dict[bytes, Place] = {}
        self._parts: list[tuple[int, int]] = []  # where each sorted part of the file begins and ends
        self._file: IO[bytes] | None = None

    def add(self, name: str, place: Place) -> Place | None:
        """Remember an id; where it is known to have stood before, that place."""
        key = _key(name)
        earlier = self._recent.get(key)
        if earlier is None:
            if len(self._recent) >= self._most:
                self._spill()
            self._recent[key] = place
        return earlier

    def find(self, name: str) -> Place | None:
        """Where an id stood first. Reads all that was spilled: for the message of an error."""
        key = _key(name)
        if key in self._recent:
            return self._recent[key]
        found = (place for part in self._parts for other, place in self._records(*part) if other == key)
        return next(found, None)

    def repeated(self) -> tuple[Place, Place] | None:
        """Both places of an id that stands twice, the second as early as possible."""
        if not self._parts:
            return None
        if self._recent:
            self._spill()
        twice: tuple[Place, Place] | None = None
        before: tuple[bytes, Place] | None = None
        for key, place in heapq.merge(*(self._records(*part) for part in self._parts)):
            if before is not None and before[0] == key and (twice is None or place < twice[1]):
                twice = before[1], place
            before = key, place
        return twice

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        packed = (
            key + place.line.to_bytes(8, "big") + place.offset.to_bytes(8, "big")
            for key, place in sorted(self._recent.items())
        )
        start = self._file.tell()
        self._file.write(b"".join(packed))
        self._file.flush()
        self._parts.append((start, self._file.tell()))
        self._recent.clear()

    def _records(self, start: int, end: int) -> Iterator[tuple[bytes, Place]]:
        assert self._file is not None
        for at in range(start, end, _BLOCK):
            block = os.pread(self._file.fileno(), min(_BLOCK, end - at), at)
            for begin in range(0, len(block), _RECORD):
                line, offset = block[begin + _KEY : begin + 24], block[begin + 24 : begin + _RECORD]
                place = Place(int.from_bytes(line, "big"), int.from_bytes(offset, "big"))
                yield block[begin : begin + _KEY], place


def _key(name: str) -> bytes:
    return sha256(name.encode("utf-8", "surrogatepass")).digest()[:_KEY]
