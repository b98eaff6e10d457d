"""A torn tail told from damage; the tail taken off, its bytes kept, and the file replaced whole or not at all.

Torn is what ends in the middle of its last line, as after a crash or a copy that was cut short: what stands before is
as it was written, and there is some of it. Everything else is damage: nobody can tell what stood there, so nothing is
done about it.
"""

from __future__ import annotations

import os
import shutil
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO, Final, Literal

from reenact.errors import ReenactError, StoreBusy, StoreUnavailable, UsageError
from reenact.store.private_file import sync_folder
from reenact.trace.hashing import wide_integer
from reenact.values.bounds import LARGEST_FILE
from reenact.values.parse import read
from reenact.verify.files.packed import HEADER

LONGEST_LINE: Final = 96 << 20
"""Longer than any that is written: a packed payload has at most 89,478,584 bytes."""
_CHUNK: Final = 1 << 18
_OTHERS: Final = {
    b"SQLite format 3\0": "a store, which puts itself in order when it is opened; `reenact doctor` says what is wrong",
    b"PK": "a zip; unzip what can be unzipped, or ask for it again",
}
Kind = Literal["whole", "torn", "damaged"]


@dataclass(frozen=True, slots=True)
class Examined:
    """What a file is. `keep` bytes of its content are whole lines; what follows is cut off."""

    kind: Kind
    lines: int
    keep: int
    says: str
    line: int | None = None
    offset: int | None = None
    in_bundle: bool = False
    """It is a part of a bundle, whose manifest tells that it was cut, also once it is repaired."""


class _Broken(Exception):
    """The content cannot be unpacked; `is_end` where it merely stops."""

    def __init__(self, says: str, *, is_end: bool) -> None:
        super().__init__(says)
        self.is_end = is_end


def examine(path: Path) -> Examined:
    """Look at the file, and change nothing."""
    with _opened(path) as file:
        before = os.fstat(file.fileno())
        found = _look(path, file)
        _refuse_changed(path, before, os.fstat(file.fileno()))
    return found


def repair(path: Path) -> tuple[Examined, Path | None]:
    """Take off a torn tail. Gives what the file was, and where the bytes that went lie; None where none did."""
    with _opened(path) as file:
        before = os.fstat(file.fileno())
        found = _look(path, file)
        if found.kind != "torn":
            return found, None
        place = path.resolve() if path.is_symlink() else path  # a link stays one, to a file that is whole
        try:
            kept = _keep_damaged(place, file, found)
            _replace(place, file, found, before)
        except OSError as error:
            raise StoreUnavailable(f"{path} cannot be repaired: {error.strerror}; it is as it was") from None
    return found, kept


def _opened(path: Path) -> BinaryIO:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name one of its files")
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror or 'it cannot be opened'}") from None
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise UsageError(f"{path} is not a plain file")
    return file


def _look(path: Path, file: BinaryIO) -> Examined:
    file.seek(0)
    head = file.read(16)
    for magic, says in _OTHERS.items():
        if head.startswith(magic):
            raise UsageError(f"{path} is {says}")
    in_bundle = (path.parent / "manifest.json").is_file()
    number = keep = edited = 0
    try:
        for raw in _lines(_content(file)):
            number += 1
            edited += raw.endswith(b"\r\n")
            problem = _problem(raw)
            if problem is not None and number == 1:
                _refuse_document(path, file)
            if problem is not None and number > 1 and not raw.endswith(b"\n") and len(raw) <= LONGEST_LINE:
                return Examined("torn", number - 1, keep, f"its last line was cut: {problem}", number, keep, in_bundle)
            if problem is not None:
                return Examined("damaged", number - 1, keep, problem, number, keep, in_bundle)
            keep += len(raw)
            if not raw.endswith(b"\n"):
                says = "its last line has no newline"
                return Examined("torn", number, keep, says, number, keep - len(raw), in_bundle)
    except _Broken as broken:
        kind: Kind = "torn" if broken.is_end and number else "damaged"
        return Examined(kind, number, keep, str(broken), number + 1, keep, in_bundle)
    if number == 0:
        return Examined("damaged", 0, 0, "it is empty: what stood there is lost", None, 0, in_bundle)
    says = f", and {edited} end with CR LF, as an editor leaves them: in a replay log or bundle lines end with LF alone"
    return Examined("whole", number, keep, "every line is whole" + (says if edited else ""), in_bundle=in_bundle)


def _refuse_document(path: Path, file: BinaryIO) -> None:
    """A plan or receipt as an editor lays it out is no file of lines, and nothing is wrong with it."""
    place = file.tell()
    file.seek(0)
    data = file.read(LARGEST_FILE + 1)
    file.seek(place)
    if len(data) > LARGEST_FILE:
        return
    try:
        read(data, str(path), wide_integer)
    except ReenactError:
        return
    raise UsageError(f"{path} is one JSON document, and whole; files of lines are looked at here")


def _problem(raw: bytes) -> str | None:
    if raw.strip(b"\0") == b"":
        return "zeros, which a file system leaves after a crash"
    if len(raw) > LONGEST_LINE:
        return f"a line of more than {LONGEST_LINE} bytes"
    try:
        read(raw.rstrip(b"\r\n"), "the line", wide_integer)  # other producers' logs have integers of 64 bits
    except ReenactError as error:
        return str(error)
    return None


def _content(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of the file, unpacked where it is gzip."""
    file.seek(0)
    if file.read(len(HEADER)) != HEADER:
        file.seek(0)
        while chunk := file.read(_CHUNK):
            yield chunk
        return
    yield from _unpacked(file)


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    while chunk := file.read(_CHUNK):
        while chunk:
            try:
                data = unpacker.decompress(chunk, _CHUNK)
            except zlib.error as error:
                raise _Broken(f"it cannot be unpacked ({error})", is_end=False) from None
            if data:
                yield data
            chunk = b"" if unpacker.eof else unpacker.unconsumed_tail
        if unpacker.eof:
            if unpacker.unused_data or file.read(1):
                raise _Broken("bytes stand behind its end", is_end=False)
            return
    if data := unpacker.flush(_CHUNK):
        yield data
    raise _Broken("the packed bytes end in the middle", is_end=True)


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Lines with their newlines; the last one without, if it was cut. One that is too long ends it."""
    parts: list[bytes] = []
    size = 0
    for chunk in _until_broken(chunks):
        if isinstance(chunk, _Broken):
            if not chunk.is_end or not parts:
                raise chunk
            raise _Broken(f"{chunk}, and so does its last line", is_end=True)
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            parts.append(chunk[start : end + 1])
            yield b"".join(parts)
            parts.clear()
            size, start = 0, end + 1
        parts.append(chunk[start:])
        size += len(parts[-1])
        if size > LONGEST_LINE:
            yield b"".join(parts)
            return
    if any(parts):
        yield b"".join(parts)


def _until_broken(chunks: Iterator[bytes]) -> Iterator[bytes | _Broken]:
    try:
        yield from chunks
    except _Broken as broken:
        yield broken


# -- writing -----------------------------------------------------------------------------------------------------------


def _keep_damaged(path: Path, file: BinaryIO, found: Examined) -> Path | None:
    """The bytes that go, beside the file, under a name that says which they are: of packed ones the whole file."""
    file.seek(0)
    packed = file.read(len(HEADER)) == HEADER
    whole, start = sha256(), 0 if packed else found.keep
    if file.seek(0, os.SEEK_END) == start:
        return None
    file.seek(start)
    while chunk := file.read(_CHUNK):
        whole.update(chunk)
    kept = path.with_name(f"{path.name}.damaged-{whole.hexdigest()[:12]}")
    file.seek(start)
    with _draft(kept) as draft:
        shutil.copyfileobj(file, draft, _CHUNK)
    return kept


def _replace(path: Path, file: BinaryIO, found: Examined, before: os.stat_result) -> None:
    file.seek(0)
    packed = file.read(len(HEADER)) == HEADER
    with _draft(
        path, mode=stat.S_IMODE(before.st_mode), check=lambda: _refuse_changed(path, before, path.stat())
    ) as out:
        packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16) if packed else None
        left, last = found.keep, b"\n"
        for chunk in _as_far_as_it_goes(_content(file)):
            part = chunk[:left]
            left -= len(part)
            last = part[-1:] or last
            out.write(part if packer is None else packer.compress(part))
            if not left:
                break
        end = b"" if last == b"\n" else b"\n"
        out.write(end if packer is None else packer.compress(end) + packer.flush())


def _as_far_as_it_goes(chunks: Iterator[bytes]) -> Iterator[bytes]:
    with suppress(_Broken):
        yield from chunks


class _draft:  # noqa: N801 - a context manager that reads as one
    """A file that appears whole, synced, under its name, or not at all."""

    def __init__(self, path: Path, *, mode: int = 0o600, check: object = None) -> None:
        self._path, self._mode, self._check = path, mode, check

    def __enter__(self) -> BinaryIO:
        descriptor, name = mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
        self._name = name
        self._file = os.fdopen(descriptor, "wb")
        return self._file

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._file.flush()
                os.fchmod(self._file.fileno(), self._mode)
                os.fsync(self._file.fileno())
                if callable(self._check):
                    self._check()
                Path(self._name).replace(self._path)
                sync_folder(self._path.parent)
        finally:
            self._file.close()
            Path(self._name).unlink(missing_ok=True)


def _refuse_changed(path: Path, before: os.stat_result, now: os.stat_result) -> None:
    same = (before.st_ino, before.st_size, before.st_mtime_ns) == (now.st_ino, now.st_size, now.st_mtime_ns)
    if not same:
        raise StoreBusy(f"{path} is being written: wait until its run has ended")
