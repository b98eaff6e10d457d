"""A bundle as somebody zipped it, read in place: its directory first, each file where it lies, nothing unpacked.

What a zip may hold that a bundle never needs is refused before anything is read: names that lead elsewhere, links,
encryption, two files of one name, entries that overlap, sizes that cannot be true.
"""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

from reenact.errors import UnusableZip
from reenact.verify.files.inflate import Damaged, Inflated
from reenact.verify.files.litter import is_litter
from reenact.verify.folder import MAX_FILE_BYTES, PARENTS, PAYLOADS, Folder, not_plain, too_large
from reenact.verify.report import Problem, shown

MAX_ENTRIES: Final = 500_000
MAX_DIRECTORY: Final = 256 << 20
BOMB_BYTES: Final = 1 << 30
BOMB_RATIO: Final = 200
"""What unpacks to more than both is no bundle that was zipped."""

_CHUNK: Final = 1 << 20
_END: Final = struct.Struct("<4s4H2IH")
_LOCATOR: Final = struct.Struct("<4sIQI")
_END64: Final = struct.Struct("<4sQ2H2I4Q")
_ENTRY: Final = struct.Struct("<4s6H3I5H2I")
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_ENCRYPTED: Final = 1 | 1 << 6 | 1 << 13
_UNIX: Final = 3
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_WHOLE = 0xFFFFFFFF


class Entry(NamedTuple):
    """One file in the zip."""

    at: int
    packed: int
    size: int
    crc: int
    method: int
    raw_name: bytes


class _Part(io.RawIOBase):
    """The `size` bytes at `start` of an open file, as a file of its own; the descriptor stays its keeper's."""

    def __init__(self, descriptor: int, start: int, size: int) -> None:
        self._descriptor, self._start, self._size, self._at = descriptor, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        wanted = max(0, min(len(view), self._size - self._at))
        data = os.pread(self._descriptor, wanted, self._start + self._at)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class _Checked(io.RawIOBase):
    """Bytes of an entry, as many as its directory says and with its CRC; read from the first to the last."""

    def __init__(self, inner: io.RawIOBase, entry: Entry, complain: Callable[[str], UnusableZip]) -> None:
        self._inner, self._entry, self._complain = inner, entry, complain
        self._crc = self._at = 0
        self._in_order = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        wanted = offset + (0, self._at, self._entry.size)[whence]
        if wanted == 0:
            self._crc, self._in_order = 0, True
        elif wanted != self._at:
            self._in_order = False
        self._at = wanted
        return self._at

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if self._at >= self._entry.size:
            return 0
        try:
            self._inner.seek(self._at)
            count = self._inner.readinto(view[: self._entry.size - self._at]) or 0
        except Damaged as error:
            raise self._complain(f"is damaged: {error}") from None
        if not count:
            raise self._complain("is damaged: it has fewer bytes than the zip says")
        self._at += count
        if self._in_order:
            self._crc = zlib.crc32(view[:count], self._crc)
            if self._at == self._entry.size and self._crc != self._entry.crc:
                raise self._complain("is damaged: its CRC-32 is not the one that the zip says")
        return count


class ZippedFolder:
    """A bundle's folder inside a zip: what `Folder` is for one on disk."""

    def __init__(self, path: Path, descriptor: int, files: dict[str, Entry], folders: set[str], top: str) -> None:
        self._path = path
        self._descriptor = descriptor
        self._files = files
        self._folders = folders
        self._top = top

    @classmethod
    def at(cls, path: Path) -> ZippedFolder:
        """Refused (`UnusableZip`) where it is not the zip of one bundle."""
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise UnusableZip(f"{path}: {error.strerror or 'it cannot be opened'}") from None
        try:
            files, folders = _Directory(path, descriptor).read()
            return cls(path, descriptor, files, folders, _top(path, files))
        except BaseException:
            os.close(descriptor)
            raise

    def parent(self, run_id: str) -> ZippedFolder | None:
        top = f"{self._top}{PARENTS}/{run_id}/"
        if not any(name.startswith(top) for name in self._files):
            return None
        return ZippedFolder(self._path, os.dup(self._descriptor), self._files, self._folders, top)

    def close(self) -> None:
        os.close(self._descriptor)

    def open(self, name: str) -> BinaryIO | Problem | None:
        """The file `name`, None where nothing is, or why it cannot be read."""
        entry = self._files.get(self._top + name)
        if entry is None:
            is_folder = f"{self._top}{name}/" in self._folders
            return not_plain(name) if is_folder else None

        def complain(what: str) -> UnusableZip:
            return UnusableZip(f"{self._path}: {shown(self._top + name)} {what}; ask for the zip again")

        part = _Part(self._descriptor, _data_at(self._descriptor, entry, complain), entry.packed)
        inner = part if entry.method == 0 else Inflated(part, 0, entry.packed, entry.size)
        return io.BufferedReader(_Checked(inner, entry, complain), 1 << 16)

    def read(self, name: str) -> bytes | Problem | None:
        """All bytes of a file of bounded size."""
        parts: list[bytes] = []
        fed = self.feed(name, parts.append, MAX_FILE_BYTES)
        return b"".join(parts) if fed is True else fed

    def feed(self, name: str, take: Callable[[bytes], object], limit: int) -> Literal[True] | Problem | None:
        """Give the bytes of a file to `take`, True when all went; None where nothing is."""
        entry = self._files.get(self._top + name)
        if entry is not None and entry.size > limit:
            return too_large(name, limit)
        stream = self.open(name)
        if stream is None or isinstance(stream, Problem):
            return stream
        with stream:
            while chunk := stream.read(_CHUNK):
                take(chunk)
        return True

    def beside(self) -> list[str]:
        """What else lies in the zip, outside of the bundle's folder."""
        return [name for name in self._files if not name.startswith(self._top)]

    def names(self) -> Iterator[tuple[str, bool]]:
        """As `Folder.names`: every name in the folder, in `payloads` and in `parents`, and whether it is a file.

        In the order of the names, whatever order they were zipped in.
        """
        seen: dict[str, bool] = {}
        for whole in (*self._files, *sorted(self._folders)):
            if not whole.startswith(self._top) or whole == self._top:
                continue
            name = whole[len(self._top) :]
            first, _, rest = name.partition("/")
            is_file = not whole.endswith("/")
            if first == PAYLOADS and rest:
                inner = rest.partition("/")[0]
                found = (f"{PAYLOADS}/{inner}", is_file and inner == rest)
            elif first == PARENTS and rest:
                inner, slash, _ = rest.partition("/")
                found = (f"{PARENTS}/{inner}/manifest.json" if slash else f"{PARENTS}/{inner}", True)
            elif first in (PAYLOADS, PARENTS) and not is_file:
                continue
            else:
                found = (first, is_file and not rest)
            seen.setdefault(*found)
        yield from sorted(seen.items(), key=lambda each: each[0].split("/", 1))


def _data_at(descriptor: int, entry: Entry, complain: Callable[[str], UnusableZip]) -> int:
    """Where an entry's bytes begin; what stands before them must say what the directory says."""
    head = os.pread(descriptor, _LOCAL.size, entry.at)
    if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
        raise complain("is not where the zip's directory says")
    fields = _LOCAL.unpack(head)
    name_bytes, extra_bytes = fields[9], fields[10]
    name = os.pread(descriptor, name_bytes, entry.at + _LOCAL.size)
    if fields[3] != entry.method or name != entry.raw_name:
        raise complain("is another file than the zip's directory says")
    return entry.at + _LOCAL.size + int(name_bytes) + int(extra_bytes)


class _Directory:
    """The central directory of a zip, entry by entry."""

    def __init__(self, path: Path, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnusableZip(f"{path}: it is not a plain file; name a folder or a zip")
        self._path = path
        self._bytes = status.st_size
        self._source = io.BufferedReader(_Part(descriptor, 0, self._bytes))
        self._files: dict[str, Entry] = {}
        self._folders: set[str] = set()
        self._seen: dict[str, str] = {}

    def _refuse(self, what: str) -> UnusableZip:
        return UnusableZip(f"{self._path}: {what}")

    def read(self) -> tuple[dict[str, Entry], set[str]]:
        count, size, at, limit = self._end()
        if at + size != limit:
            raise self._refuse("the zip is damaged: its directory is not where its end says; ask for it again")
        if count > MAX_ENTRIES or size > MAX_DIRECTORY:
            raise self._refuse(f"the zip has {count} entries; at most {MAX_ENTRIES} are read: unzip it")
        self._source.seek(at)
        directory = self._source.read(size)
        offset = 0
        for _ in range(count):
            offset = self._entry(directory, offset)
        if offset != len(directory):
            raise self._refuse("the zip is damaged: its directory holds more than its entries; ask for it again")
        self._refuse_overlap(at)
        self._refuse_bomb()
        return self._files, self._folders

    def _end(self) -> tuple[int, int, int, int]:
        """(entries, bytes of the directory, where it begins, where it must end)."""
        tail_at = max(0, self._bytes - _END.size - 0xFFFF)
        self._source.seek(tail_at)
        tail = self._source.read()
        found = tail.rfind(b"PK\x05\x06")
        while found >= 0:
            if len(tail) - found >= _END.size and found + _END.size + _END.unpack_from(tail, found)[7] == len(tail):
                break
            found = tail.rfind(b"PK\x05\x06", 0, found)
        if found < 0:
            self._source.seek(0)
            if self._source.read(2) == b"PK":
                raise self._refuse("the zip was cut: its end is missing; ask for it again")
            raise self._refuse("it is neither a folder nor a zip; name what `reenact export` wrote, or a zip of it")
        _, disk, first_disk, here, count, size, at, _ = _END.unpack_from(tail, found)
        ends_at = tail_at + found
        if (disk, first_disk) != (0, 0) or here != count:
            raise self._refuse("the zip is one of several parts; put them together first")
        if count == 0xFFFF or _WHOLE in (size, at):
            return self._end64(ends_at)
        return count, size, at, ends_at

    def _end64(self, end_at: int) -> tuple[int, int, int, int]:
        damaged = self._refuse("the zip is damaged: its end is not one; ask for it again")
        if end_at < _LOCATOR.size + _END64.size:
            raise damaged
        self._source.seek(end_at - _LOCATOR.size)
        mark, _, at, _ = _LOCATOR.unpack(self._source.read(_LOCATOR.size))
        if mark != b"PK\x06\x07" or at > end_at - _LOCATOR.size - _END64.size:
            raise damaged
        self._source.seek(at)
        fields = _END64.unpack(self._source.read(_END64.size))
        if fields[0] != b"PK\x06\x06" or fields[4:6] != (0, 0) or fields[6] != fields[7]:
            raise damaged
        return fields[7], fields[8], fields[9], at

    def _entry(self, directory: bytes, offset: int) -> int:
        if len(directory) - offset < _ENTRY.size or not directory.startswith(b"PK\x01\x02", offset):
            raise self._refuse("the zip is damaged: its directory cannot be read; ask for it again")
        fields = _ENTRY.unpack_from(directory, offset)
        (_, made_by, _, flags, method, _, _, crc, packed, size, names, extras, comments, _, _, attributes, at) = fields
        start = offset + _ENTRY.size
        end: int = start + names + extras + comments
        if end > len(directory):
            raise self._refuse("the zip is damaged: its directory cannot be read; ask for it again")
        raw_name = directory[start : start + names]
        name = self._name(raw_name)
        mode = attributes >> 16 if made_by >> 8 == _UNIX else 0
        self._refuse_kind(name, flags, method, mode)
        size, packed, at = self._sizes(name, (size, packed, at), directory[start + names : start + names + extras])
        if method == 0 and size != packed:
            raise self._refuse(f"the zip is damaged or lies: the sizes of {shown(name)} cannot be true")
        if name.endswith("/"):
            self._folders.add(name)
        else:
            self._files[name] = Entry(at, packed, size, crc, method, raw_name)
        return end

    def _sizes(self, name: str, said: tuple[int, int, int], extra: bytes) -> tuple[int, int, int]:
        """(size, packed size, place), where they are large from the extra field."""
        large: Iterator[int] = iter(())
        while len(extra) >= 4:
            kind, length = struct.unpack_from("<2H", extra)
            if kind == 1:
                data = extra[4 : 4 + length]
                large = iter(struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8]))
            extra = extra[4 + length :]
        size, packed, at = (next(large, -1) if number == _WHOLE else number for number in said)
        if min(size, packed, at) < 0 or at + packed > self._bytes or size > packed * 1100 + 1100:
            raise self._refuse(f"the zip is damaged or lies: the sizes of {shown(name)} cannot be true")
        return size, packed, at

    def _name(self, raw: bytes) -> str:
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            name = raw.decode("cp437")
        parts = name.removesuffix("/").split("/")
        leads_elsewhere = name.startswith("/") or _DRIVE.match(name) or any(part in ("", ".", "..") for part in parts)
        if leads_elsewhere or "\\" in name or "\0" in name:
            raise self._refuse(f"refused: the zip holds a name that leads elsewhere, {shown(name)!r}")
        same = unicodedata.normalize("NFC", name.removesuffix("/")).casefold()
        before = self._seen.setdefault(same, name)
        if before != name:
            raise self._refuse(
                f"refused: the zip holds {shown(before)!r} and {shown(name)!r}, which many systems take for one"
            )
        if name in self._files or name in self._folders:
            raise self._refuse(f"refused: the zip holds {shown(name)!r} twice")
        return name

    def _refuse_kind(self, name: str, flags: int, method: int, mode: int) -> None:
        if flags & _ENCRYPTED:
            raise self._refuse(f"{shown(name)} is encrypted; ask for a zip without a password")
        if stat.S_ISLNK(mode):
            raise self._refuse(f"refused: {shown(name)} is a link")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise self._refuse(f"refused: {shown(name)} is not a plain file")
        if method not in (0, 8):
            raise self._refuse(f"{shown(name)} is packed by method {method}, which is not read here; unzip it")

    def _refuse_overlap(self, directory_at: int) -> None:
        """No byte belongs to two entries: that is how a small zip unpacks to a huge one."""
        end = 0
        for name, entry in sorted(self._files.items(), key=lambda item: item[1].at):
            if entry.at < end:
                raise self._refuse(f"refused: {shown(name)} overlaps another file of the zip")
            end = entry.at + _LOCAL.size + len(entry.raw_name) + entry.packed
        if end > directory_at:
            raise self._refuse("the zip is damaged: a file reaches into its directory; ask for it again")

    def _refuse_bomb(self) -> None:
        total = sum(entry.size for entry in self._files.values())
        if total > BOMB_BYTES and total > BOMB_RATIO * self._bytes:
            raise self._refuse(f"refused as a zip bomb: {self._bytes} bytes that unpack to {total}")


def _top(path: Path, files: dict[str, Entry]) -> str:
    """The folder that holds the bundle: none, or the one at the top that everything was zipped with."""
    if "manifest.json" in files:
        return ""
    tops = [
        name.removesuffix("manifest.json")
        for name in files
        if name.count("/") == 1 and name.endswith("/manifest.json") and not is_litter(name)
    ]
    if not tops:
        raise UnusableZip(f"{path}: it holds no bundle: no manifest.json, neither at its top nor in a folder there")
    if len(tops) > 1:
        names = ", ".join(sorted(shown(top.rstrip("/")) for top in tops)[:5])
        raise UnusableZip(f"{path}: it holds {len(tops)} bundles ({names}); unzip it and name one")
    return tops[0]


def files_at(path: Path) -> Folder | ZippedFolder:
    """The files of the bundle at `path`, a folder or a zip. StoreUnavailable where it is neither."""
    return ZippedFolder.at(path) if path.exists() and not path.is_dir() else Folder.at(path)
