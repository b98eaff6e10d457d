"""Reads a bundle's folder without trusting it: follows no link, opens nothing but plain files, bounds every size."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, Literal, Protocol

from reenact.errors import StoreUnavailable
from reenact.verify.payloads import MAX_ENVELOPE_BYTES
from reenact.verify.report import Findings, Problem, Where

MAX_FILE_BYTES: Final = MAX_ENVELOPE_BYTES
PAYLOADS: Final = "payloads"
PARENTS: Final = "parents"
MOST_NAMES: Final = 1_000_000
"""Of one folder, that are put in order; more are taken as they come."""
_CHUNK: Final = 1 << 20

# O_NONBLOCK: opening a FIFO that nobody writes to must not wait. O_NOFOLLOW: a link is not a file.
_FILE: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_INNER: Final = _DIRECTORY | getattr(os, "O_NOFOLLOW", 0)


def not_plain(name: str) -> Problem:
    """Of whatever stands where a file must, or cannot be read as one."""
    return Problem("FILE_KIND", f"{name} is not a plain file that can be read")


def too_large(name: str, limit: int) -> Problem:
    return Problem("FILE_TOO_LARGE", f"{name} has more than {limit} bytes")


class Folder:
    """A bundle's folder, held open, so that its name cannot be turned to another place while it is read."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._payloads: int | None = None

    @classmethod
    def at(cls, path: Path) -> Folder:
        try:
            return cls(os.open(path, _DIRECTORY))
        except OSError as error:
            reason = error.strerror or "it cannot be opened"
            raise StoreUnavailable(f"{path}: {reason}; name the folder that `reenact export` wrote") from None

    def parent(self, run_id: str) -> Folder | None:
        """The bundle in here of a run that this one continues; None where there is no such folder."""
        try:
            around = os.open(PARENTS, _INNER, dir_fd=self._top)
            try:
                return Folder(os.open(run_id, _INNER, dir_fd=around))
            finally:
                os.close(around)
        except OSError:
            return None

    def close(self) -> None:
        os.close(self._top)
        if self._payloads is not None:
            os.close(self._payloads)

    def open(self, name: str) -> BinaryIO | Problem | None:
        """The plain file `name`, None where nothing is, or why it cannot be read."""
        folder, _, base = name.rpartition("/")
        try:
            directory = self._payload_folder() if folder == PAYLOADS else self._top
            handle = os.open(base, _FILE, dir_fd=directory)
        except FileNotFoundError:
            return None
        except OSError:
            return not_plain(name)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            return not_plain(name)
        return os.fdopen(handle, "rb")

    def _payload_folder(self) -> int:
        if self._payloads is None:
            self._payloads = os.open(PAYLOADS, _INNER, dir_fd=self._top)
        return self._payloads

    def read(self, name: str) -> bytes | Problem | None:
        """All bytes of a file of bounded size."""
        parts: list[bytes] = []
        fed = self.feed(name, parts.append, MAX_FILE_BYTES)
        return b"".join(parts) if fed is True else fed

    def feed(self, name: str, take: Callable[[bytes], object], limit: int) -> Literal[True] | Problem | None:
        """Give the bytes of a file to `take`, True when all went; None where nothing is."""
        stream = self.open(name)
        if stream is None or isinstance(stream, Problem):
            return stream
        size = 0
        with stream:
            try:
                if os.fstat(stream.fileno()).st_size > limit:
                    return too_large(name, limit)
                while chunk := stream.read(_CHUNK):
                    size += len(chunk)
                    if size > limit:  # it grew while it was read
                        return too_large(name, limit)
                    take(chunk)
            except OSError:
                return not_plain(name)
        return True

    def beside(self) -> list[str]:
        """What lies outside of the folder is nobody's business here."""
        return []

    def names(self) -> Iterator[tuple[str, bool]]:
        """Every name in the folder, in `payloads` and in `parents`, with whether it is a plain file.

        A folder in `parents` stands there as its manifest: what is beside that is a bundle of its own.
        """
        for name, is_file, is_folder in _listing(self._top):
            if name == PAYLOADS and is_folder:
                for inner, inner_is_file, _ in _listing(self._payload_folder()):
                    yield f"{PAYLOADS}/{inner}", inner_is_file
            elif name == PARENTS and is_folder:
                yield from self._parents()
            else:
                yield name, is_file

    def _parents(self) -> Iterator[tuple[str, bool]]:
        around = os.open(PARENTS, _INNER, dir_fd=self._top)
        try:
            for name, is_file, is_folder in _listing(around):
                yield f"{PARENTS}/{name}/manifest.json" if is_folder else f"{PARENTS}/{name}", is_file or is_folder
        finally:
            os.close(around)


def _listing(directory: int) -> Iterator[tuple[str, bool, bool]]:
    """In the order of the names, so that the first break is the same on every machine."""
    with os.scandir(directory) as entries:
        kinds = ((e.name, e.is_file(follow_symlinks=False), e.is_dir(follow_symlinks=False)) for e in entries)
        yield from sorted(islice(kinds, MOST_NAMES))
        yield from kinds


class Reads(Protocol):
    """A bundle's files, of which each is small enough to be read whole."""

    def read(self, name: str) -> bytes | Problem | None: ...


class FolderPayloads:
    """The envelopes of a bundle, a file each; what is no plain file counts as absent, and is told."""

    def __init__(self, folder: Reads, findings: Findings) -> None:
        self._folder = folder
        self._findings = findings
        self._told: set[str] = set()

    def get(self, commitment: str, /) -> bytes | None:
        name = f"{PAYLOADS}/{commitment}"
        data = self._folder.read(name)
        if isinstance(data, Problem):
            if name not in self._told:
                self._told.add(name)
                self._findings.add(data, Where(file=name))
            return None
        return data

    def close(self) -> None:
        """Nothing stays open between two of them."""
