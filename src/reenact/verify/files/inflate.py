"""Random access into deflated bytes: read where they lie, in bounded memory, with nothing unpacked to disk."""

from __future__ import annotations

import io
import zlib
from typing import BinaryIO, Final, NamedTuple

STRIDE: Final = 1 << 20
"""How far apart the places lie at which reading can begin: each keeps about 60 KB."""
_INPUT: Final = 1 << 14
_PLACES: Final = 128


class Damaged(Exception):
    """The bytes are not what they were packed from; says how that shows."""


class _Place(NamedTuple):
    out: int
    read: int
    state: zlib._Decompress


class Inflated(io.RawIOBase):
    """The bytes that `size` deflated ones at `start` of `source` stand for, and no more of them than `limit`.

    Raises Damaged where they cannot be unpacked, or are more.
    """

    def __init__(
        self, source: io.RawIOBase | BinaryIO, start: int, size: int, limit: int, stride: int = STRIDE
    ) -> None:
        self._source = source
        self._start, self._size, self._limit = start, size, limit
        self._stride = stride
        self._places = [_Place(0, 0, zlib.decompressobj(-zlib.MAX_WBITS))]
        self._begin(self._places[0])

    def _begin(self, place: _Place) -> None:
        self._out, self._read, self._state = place.out, place.read, place.state.copy()
        self._tail = b""

    @property
    def used(self) -> int:
        """How many of the deflated bytes were needed: all, where nothing stands behind the end."""
        return self._read - len(self._state.unused_data if self._state.eof else self._tail)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._out

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """To `offset` from the beginning, or from here; the end is not known."""
        wanted = offset + (self._out if whence == io.SEEK_CUR else 0)
        nearest = max((place for place in self._places if place.out <= wanted), key=lambda place: place.out)
        if not nearest.out <= self._out <= wanted:
            self._begin(nearest)
        while self._out < wanted and self._more(min(wanted - self._out, STRIDE)):
            pass
        return self._out

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self._more(len(view)) if view else b""
        view[: len(data)] = data
        return len(data)

    def _more(self, wanted: int) -> bytes:
        """At least one byte and at most `wanted`; none at the end."""
        while not self._state.eof:
            if not self._tail:
                self._tail = self._raw()
            try:
                data = self._state.decompress(self._tail, wanted)
            except zlib.error as error:
                raise Damaged(f"it cannot be unpacked ({error})") from None
            self._tail = self._state.unconsumed_tail
            if data:
                self._out += len(data)
                if self._out > self._limit:
                    raise Damaged(f"it unpacks to more than the {self._limit} bytes that it may have")
                self._keep_place()
                return data
        return b""

    def _raw(self) -> bytes:
        self._source.seek(self._start + self._read)
        raw = self._source.read(min(_INPUT, self._size - self._read))
        if not raw:
            raise Damaged("it ends in the middle")
        self._read += len(raw)
        return raw

    def _keep_place(self) -> None:
        if self._out - self._places[-1].out >= self._stride:
            if len(self._places) >= _PLACES:
                del self._places[1::2]
                self._stride *= 2
            self._places.append(_Place(self._out, self._read - len(self._tail), self._state.copy()))

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()
