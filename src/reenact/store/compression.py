"""How bodies and envelopes lie on disk: one byte that names the codec, then the bytes.

0 raw · 1 zstd · 2 zstd with dictionary 1 · 4 zstd with another content as its dictionary (3 is in `deltas.py`, which
says with which). A dictionary is never changed: a better one gets a new number.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from importlib.resources import files

import zstandard

from reenact.errors import DamagedRecord
from reenact.values.envelope import LARGEST_ENVELOPE

RAW, ZSTD, ZSTD_DICT_1, ZSTD_CONTENT = b"\x00", b"\x01", b"\x02", b"\x04"
LEVEL = 3
BODY_LEVEL = 1
"""With the dictionary, higher levels make a body no smaller, only slower."""
LONG = 256 * 1024
LONG_WINDOW_LOG = 26
"""Large values repeat themselves over long distances: what is repeated may lie far back."""
CONTENT_LEVEL = 1
"""What is in the other content is found at any level; higher ones only take longer."""
MOST_RECENT = 20
MOST_RECENT_BYTES = 8 * 1024 * 1024
SMALL = 512
"""Below this an envelope is mostly its salt, ids and times: compressing it takes longer than writing what it saves."""
SMALLEST_TEXT = 96


@cache
def dictionary_1() -> zstandard.ZstdCompressionDict:
    data = files("reenact.store").joinpath("dictionary_1.bin").read_bytes()
    dictionary = zstandard.ZstdCompressionDict(data, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    dictionary.precompute_compress(level=BODY_LEVEL)
    return dictionary


class RecentContents:
    """The contents of envelopes that were put together last, by what is stored: what builds on one is read next."""

    def __init__(self) -> None:
        self._contents: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, stored: bytes) -> bytes | None:
        found = self._contents.get(stored)
        if found is not None:
            self._contents.move_to_end(stored)
        return found

    def put(self, stored: bytes, content: bytes) -> None:
        if stored in self._contents or len(content) > MOST_RECENT_BYTES:
            return
        self._contents[stored] = content
        self._bytes += len(content)
        while len(self._contents) > MOST_RECENT or self._bytes > MOST_RECENT_BYTES:
            self._bytes -= len(self._contents.popitem(last=False)[1])


class Codec:
    """Compressor and decompressors of one connection; not to be shared between threads."""

    def __init__(self) -> None:
        self.recent = RecentContents()
        self._journal = zstandard.ZstdCompressor(
            level=BODY_LEVEL, dict_data=dictionary_1(), write_checksum=False, write_dict_id=False
        )
        self._plain = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False)
        self._long = zstandard.ZstdCompressor(
            compression_params=zstandard.ZstdCompressionParameters.from_level(
                LEVEL, window_log=LONG_WINDOW_LOG, enable_ldm=True
            )
        )
        self._journal_back = zstandard.ZstdDecompressor(dict_data=dictionary_1(), max_window_size=1 << LONG_WINDOW_LOG)
        self._plain_back = zstandard.ZstdDecompressor(max_window_size=1 << LONG_WINDOW_LOG)

    def pack_body(self, body: bytes) -> bytes:
        return ZSTD_DICT_1 + self._journal.compress(body)

    def pack_envelope(self, envelope: bytes) -> bytes:
        if len(envelope) < SMALL:
            return RAW + envelope
        packed = (self._long if len(envelope) > LONG else self._plain).compress(envelope)
        return ZSTD + packed if len(packed) < len(envelope) else RAW + envelope

    def pack_middle(self, middle: bytes) -> bytes:
        """As `pack_envelope`, for what has no salt in it: the shortest text is worth it."""
        packed = self._plain.compress(middle) if SMALLEST_TEXT <= len(middle) < SMALL else middle
        return ZSTD + packed if len(packed) < len(middle) else self.pack_envelope(middle)

    def pack_like(self, other: bytes, content: bytes) -> bytes:
        """As small as what is new in `content`, wherever the rest of it stands in the other one."""
        parameters = zstandard.ZstdCompressionParameters.from_level(
            CONTENT_LEVEL,
            window_log=max(10, (len(other) + len(content)).bit_length()),
            hash_log=min(20, max(14, len(other).bit_length())),
            write_checksum=False,
        )
        compressor = zstandard.ZstdCompressor(dict_data=as_dictionary(other), compression_params=parameters)
        return ZSTD_CONTENT + compressor.compress(content)

    def unpack_like(self, other: bytes, stored: bytes, most: int) -> bytes:
        """What `pack_like` packed beside the same other content, or what was packed alone."""
        if stored[:1] != ZSTD_CONTENT:
            return self.unpack(stored, most)
        back = zstandard.ZstdDecompressor(dict_data=as_dictionary(other), max_window_size=1 << LONG_WINDOW_LOG)
        return decompressed(back, stored, most)

    def unpack(self, stored: bytes, most: int = LARGEST_ENVELOPE) -> bytes:
        """What was packed; DamagedRecord where it is more than `most` bytes, before any of them is made."""
        codec = stored[:1]
        if codec == RAW:
            return stored[1:]
        if codec == ZSTD_DICT_1:
            return decompressed(self._journal_back, stored, most)
        if codec == ZSTD:
            return decompressed(self._plain_back, stored, most)
        raise DamagedRecord(f"stored bytes name an unknown codec {codec.hex() or 'none'}; a newer version wrote them")


def as_dictionary(content: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def decompressed(back: zstandard.ZstdDecompressor, stored: bytes, most: int) -> bytes:
    """Every frame that is written says how large its content is; libzstd gives that much and no more."""
    frame = memoryview(stored)[1:]
    try:
        size = zstandard.frame_content_size(frame)
        if not 0 <= size <= most:
            raise DamagedRecord(f"stored bytes claim to hold {size} bytes, and there are at most {most}")
        return back.decompress(frame, allow_extra_data=False)
    except (zstandard.ZstdError, MemoryError, OverflowError) as error:
        # A damaged frame may claim any size.
        raise DamagedRecord(f"stored bytes do not decompress: {error or type(error).__name__}") from None
