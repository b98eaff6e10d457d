"""The payloads of a bundle of the second version: `payloads.jsonl.gz`, `payloads-2.jsonl.gz`, …, read where they lie.

They are gone through once, in order, which checks their form and says where each envelope lies; a small bundle's stay
in memory, of a large one each is unpacked again when it is asked for.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator
from hashlib import sha256
from typing import BinaryIO, Final, NamedTuple, Protocol

from reenact.values.envelope import LARGEST_ENVELOPE
from reenact.verify.files.inflate import STRIDE, Damaged, Inflated
from reenact.verify.report import Findings, Problem, Where

FIRST: Final = "payloads.jsonl.gz"
MAX_LINES_BYTES: Final = 64 << 20
"""Of the lines in one file, unless it holds a single one."""
MAX_FILES: Final = 256
HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
"""Gzip, deflated, no flags, no time. Which system and effort stand behind it says nothing."""
_HEADER_BYTES: Final = 10
_TRAILER: Final = struct.Struct("<II")
_BEGIN, _MIDDLE, _END = b'{"commitment":"', b'","envelope":"', b'"}\n'
_HEX: Final = re.compile(rb"[0-9a-f]{64}")
_AT: Final = len(_BEGIN) + 64 + len(_MIDDLE)
MAX_LINE: Final = _AT + (LARGEST_ENVELOPE + 2) // 3 * 4 + len(_END)
_KEPT_BYTES: Final = 32 << 20
_FILES_AT_FULL_STRIDE: Final = 16


def file_name(number: int) -> str:
    return FIRST if number == 1 else f"payloads-{number}.jsonl.gz"


def packed_line(commitment: str, envelope: bytes) -> bytes:
    """A payload as it stands in the file."""
    return _BEGIN + commitment.encode() + _MIDDLE + b2a_base64(envelope, newline=False) + _END


class Opens(Protocol):
    """A bundle's files."""

    def open(self, name: str) -> BinaryIO | Problem | None: ...


class _Lying(NamedTuple):
    file: int
    at: int
    size: int


class PackedPayloads:
    """The envelopes, by commitment. What is wrong with a file is told once, and reading it ends there."""

    def __init__(self, files: Opens, names: list[str], findings: Findings) -> None:
        self.digests: dict[str, str] = {}
        """Of the lines, unpacked; of each file that was read whole."""
        self._findings = findings
        self._streams: list[Inflated] = []
        self._lying: dict[bytes, _Lying] = {}
        self._kept: dict[bytes, bytes] = {}
        self._kept_bytes = 0
        self._last = b""
        self._stride = STRIDE * -(-len(names) // _FILES_AT_FULL_STRIDE)
        for name in names:
            self._read(files, name)

    @property
    def commitments(self) -> Iterator[str]:
        return (key.hex() for key in self._lying)

    def get(self, commitment: str, /) -> bytes | None:
        key = bytes.fromhex(commitment)
        lying = self._lying.get(key)
        if lying is None or key in self._kept:
            return self._kept.get(key)
        stream = self._streams[lying.file]
        stream.seek(lying.at)
        text = bytearray()
        while len(text) < lying.size and (more := stream.read(lying.size - len(text))):
            text += more
        return a2b_base64(text)

    def close(self) -> None:
        for stream in self._streams:
            stream.close()

    def _read(self, files: Opens, name: str) -> None:
        source = files.open(name)
        if source is None:
            return  # the manifest names it, so it is told as missing
        problem, line = (source, 0) if isinstance(source, Problem) else self._read_lines(source, name)
        if problem is not None:
            self._findings.add(problem, Where(file=name, line=line or None))

    def _read_lines(self, source: BinaryIO, name: str) -> tuple[Problem | None, int]:
        size = source.seek(0, io.SEEK_END)
        source.seek(0)
        head = source.read(_HEADER_BYTES)
        if not head.startswith(HEADER) or size < _HEADER_BYTES + _TRAILER.size:
            source.close()
            return Problem("FILE_MALFORMED", f"{name} is not gzip without flags and time"), 0
        stream = Inflated(source, _HEADER_BYTES, size - _HEADER_BYTES, MAX_LINE, self._stride)
        self._streams.append(stream)
        whole, check, number, last = sha256(), 0, 0, self._last
        try:
            for number, (at, line) in enumerate(_lines(stream), start=1):
                whole.update(line)
                check = zlib.crc32(line, check)
                problem = self._take(line, at, alone=number == 1)
                if problem is not None:
                    while stream.read(1 << 16):  # that it cannot be unpacked counts more
                        pass
                    return problem, number
            source.seek(_HEADER_BYTES + stream.used)
            if source.read(_TRAILER.size + 1) != _TRAILER.pack(check, stream.tell() & 0xFFFFFFFF):
                return Problem("FILE_MALFORMED", f"{name} does not end with the sums of what it holds"), 0
        except Damaged as error:
            code = "FILE_TOO_LARGE" if "more than" in str(error) else "FILE_MALFORMED"
            self._last = last
            self._forget(len(self._streams) - 1)
            return Problem(code, f"{name}: {error}"), 0
        self.digests[name] = whole.hexdigest()
        return None, 0

    def _forget(self, file: int) -> None:
        """How far a file that cannot be unpacked is read depends on who does: so nothing of it counts."""
        for key in [key for key, lying in self._lying.items() if lying.file == file]:
            del self._lying[key]
            self._kept.pop(key, None)

    def _take(self, line: bytes, at: int, *, alone: bool) -> Problem | None:
        if at + len(line) > MAX_LINES_BYTES and not alone:
            return Problem("FILE_TOO_LARGE", f"the lines of one file have at most {MAX_LINES_BYTES} bytes")
        name, text = line[len(_BEGIN) : len(_BEGIN) + 64], memoryview(line)[_AT : -len(_END)]
        envelope = _decoded(text)
        has_form = line.startswith(_BEGIN) and line.startswith(_MIDDLE, len(_BEGIN) + 64) and line.endswith(_END)
        if not has_form or _HEX.fullmatch(name) is None or envelope is None:
            return Problem("FILE_MALFORMED", "a line is not a commitment and its envelope in base64")
        if name <= self._last:
            return Problem("FILE_MALFORMED", "the lines are not in the order of their commitments, each once")
        self._last = name
        key = bytes.fromhex(name.decode())
        self._lying[key] = _Lying(len(self._streams) - 1, at + _AT, len(text))
        if self._kept_bytes + len(envelope) <= _KEPT_BYTES:
            self._kept_bytes += len(envelope)
            self._kept[key] = envelope
        return None


def _decoded(text: memoryview) -> bytes | None:
    """Only from the one text that it is encoded as: bits of the last character that nothing stands for are zero."""
    try:
        data = a2b_base64(text, strict_mode=True)
    except NotBase64:
        return None
    last = data[(len(data) - 1) // 3 * 3 :]
    return data if text[-4:] == b2a_base64(last, newline=False) else None


def _lines(stream: Inflated) -> Iterator[tuple[int, bytes]]:
    """(where it begins, the line), until nothing more comes; the last one without newline, if it was cut.

    What does not begin as a line does is not gathered to its end: it comes as far as it was read.
    """
    at, parts = 0, []
    while more := stream.read(1 << 16):
        start = 0
        while (end := more.find(b"\n", start)) >= 0:
            parts.append(more[start : end + 1])
            line = b"".join(parts)
            parts.clear()
            yield at, line
            at, start = at + len(line), end + 1
        parts.append(more[start:])
        if not parts[0].startswith(_BEGIN[: len(parts[0])]):
            break
    if any(parts):
        yield at, b"".join(parts)
