"""Writes a bundle's payloads: `payloads.jsonl.gz`, `payloads-2.jsonl.gz`, …, the same bytes from the same values."""

from __future__ import annotations

import struct
import zlib
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Self

from reenact.errors import UsageError
from reenact.store.private_file import new_private
from reenact.verify.files.packed import HEADER, MAX_FILES, MAX_LINES_BYTES, file_name, packed_line

UNKNOWN_SYSTEM = b"\x00\xff"
"""The end of a gzip header: no word about effort, no word about the system."""


class PackedFiles:
    """Payloads in the order in which they are added, which must be that of their commitments."""

    def __init__(self, folder: Path) -> None:
        self.digests: dict[str, str] = {}
        """Of the lines as they are before they are packed, by file: what packs them may differ, they may not."""
        self._folder = folder
        self._number = 0
        self._file: BinaryIO | None = None
        self._size = self._sum = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def add(self, commitment: str, envelope: bytes) -> None:
        line = packed_line(commitment, envelope)
        if self._file is None or self._size + len(line) > MAX_LINES_BYTES:
            self._end()
            self._begin()
        assert self._file is not None
        self._whole.update(line)
        self._sum = zlib.crc32(line, self._sum)
        self._size += len(line)
        self._file.write(self._packer.compress(line))

    def _begin(self) -> None:
        self._number += 1
        if self._number > MAX_FILES:
            raise UsageError(f"the values have more than {MAX_FILES} files of {MAX_LINES_BYTES} bytes; --payloads none")
        self._file = new_private(self._folder / file_name(self._number))
        self._file.write(HEADER + UNKNOWN_SYSTEM)
        self._packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        self._whole, self._sum, self._size = sha256(), 0, 0

    def _end(self) -> None:
        if self._file is None:
            return
        with self._file as file:
            file.write(self._packer.flush() + struct.pack("<II", self._sum, self._size & 0xFFFFFFFF))
        self.digests[file_name(self._number)] = self._whole.hexdigest()
        self._file = None
