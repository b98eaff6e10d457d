"""Keyed random numbers, a function of their key: the same draw in every process, on every machine, in every replay."""

from __future__ import annotations

import hmac
from collections.abc import MutableSequence, Sequence
from hashlib import sha256
from typing import TypeVar

from reenact.errors import UsageError

T = TypeVar("T")


def keyed_random(*parts: str | int) -> KeyedRandom:
    """The stream that belongs to `parts`. ("a", "b") and ("ab",) are different keys, and so are 1 and "1"."""
    key = sha256()
    for part in parts:
        kind, data = ("i", str(part).encode()) if isinstance(part, int) else ("s", part.encode())
        key.update(f"{kind}{len(data)}:".encode() + data)
    return KeyedRandom(key.digest())


class KeyedRandom:
    """HMAC-SHA-256(key, 0), HMAC-SHA-256(key, 1), … (counters of 8 bytes, big-endian), read as one stream of bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._counter = 0
        self._rest = b""

    def bytes(self, n: int) -> bytes:
        """The next `n` bytes of the stream."""
        blocks = [self._rest]
        missing = n - len(self._rest)
        while missing > 0:
            blocks.append(hmac.digest(self._key, self._counter.to_bytes(8, "big"), "sha256"))
            self._counter += 1
            missing -= 32
        data = b"".join(blocks)
        self._rest = data[n:]
        return data[:n]

    def random(self) -> float:
        """In [0, 1), a multiple of 2^-53."""
        return (int.from_bytes(self.bytes(7), "big") >> 3) * 2.0**-53

    def randrange(self, n: int) -> int:
        """In [0, n), all equally likely: draws beyond the last multiple of `n` are thrown away."""
        if n <= 0:
            raise UsageError("randrange needs a positive bound")
        size = (n.bit_length() + 7) // 8
        limit = (1 << 8 * size) // n * n
        while True:
            draw = int.from_bytes(self.bytes(size), "big")
            if draw < limit:
                return draw % n

    def choice(self, items: Sequence[T]) -> T:
        """One of `items`, all equally likely."""
        if not items:
            raise UsageError("cannot choose from nothing")
        return items[self.randrange(len(items))]

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Put `items` in a random order, in place (Fisher and Yates, from the end)."""
        for last in range(len(items) - 1, 0, -1):
            other = self.randrange(last + 1)
            items[last], items[other] = items[other], items[last]
