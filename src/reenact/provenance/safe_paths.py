"""Opening files that a stranger named: beneath one folder, regular files only, of bounded size.

Each component of a path is opened from the folder before it, without following a link. A link is read and
walked by hand, so that nothing outside the root is ever opened, not even for a moment, and whatever happens
meanwhile.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MAX_INPUT_BYTES: Final = 64 << 20
MAX_COMPONENTS: Final = 64
_MAX_PATH_CHARS: Final = 4096
_MAX_LINKS: Final = 40
_UNNAMABLE = re.compile("[\0\ud800-\udfff]")
_WINDOWS_ABSOLUTE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_KINDS: Final = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


class Refusal(enum.Enum):
    """Why a file was not read."""

    MISSING = "missing"
    FOLDER = "folder"
    OUTSIDE = "outside"
    NOT_A_FILE = "not a file"
    TOO_LARGE = "too large"
    UNREADABLE = "unreadable"


class FileRefused(Exception):
    """A file that cannot or may not be read. The message holds nothing of the file, and no foreign text."""

    def __init__(self, refusal: Refusal, message: str) -> None:
        super().__init__(message)
        self.refusal = refusal


def is_absolute(path: str) -> bool:
    """Absolute on any platform: a recording may come from another one."""
    return path.startswith("/") or _WINDOWS_ABSOLUTE.match(path) is not None


def components(path: str) -> tuple[str, ...]:
    """The names along a recorded path, absolute or not, without empty ones and `.`. `..` is refused."""
    if not path or len(path) > _MAX_PATH_CHARS or _UNNAMABLE.search(path):
        raise FileRefused(Refusal.OUTSIDE, "the path is empty, too long, or holds what no file name can")
    windows = _WINDOWS_ABSOLUTE.match(path) is not None
    names = re.split(r"[\\/]", path[2:] if windows else path) if windows else path.split("/")
    kept = tuple(name for name in names if name not in ("", "."))
    if ".." in kept:
        raise FileRefused(Refusal.OUTSIDE, "the path climbs with `..`")
    if len(kept) > MAX_COMPONENTS:
        raise FileRefused(Refusal.OUTSIDE, f"the path has more than {MAX_COMPONENTS} components")
    if ".git" in kept:
        raise FileRefused(Refusal.OUTSIDE, "the path leads into git's own folder")
    return kept


def beneath(root: Path, path: str) -> tuple[str, ...] | None:
    """The components of `path` below `root`; None for an absolute path that leads elsewhere."""
    names = components(path)
    if not is_absolute(path):
        return names
    top = root.parts[1:]
    if path.startswith("/") and names[: len(top)] == top:
        return names[len(top) :]
    return None


def read_beneath(root: Path, names: tuple[str, ...], limit: int = MAX_INPUT_BYTES) -> bytes:
    """The content of a regular file below `root`, at most `limit` bytes of it.

    Raises FileRefused for everything else: a file that is not there, a folder, a FIFO or a device, a link
    that leads out of the root, a file that is larger than the limit.
    """
    try:
        handle = _open_beneath(root, names)
    except FileRefused:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise FileRefused(Refusal.MISSING, "no such file") from None
    except OSError as error:
        raise FileRefused(Refusal.UNREADABLE, f"cannot be opened: {os.strerror(error.errno or 0)}") from None
    try:
        return _read_all(handle, limit)
    except OSError as error:
        raise FileRefused(Refusal.UNREADABLE, f"cannot be read: {os.strerror(error.errno or 0)}") from None
    finally:
        os.close(handle)


def _read_all(handle: int, limit: int) -> bytes:
    size = os.fstat(handle).st_size
    if size > limit:
        raise FileRefused(Refusal.TOO_LARGE, f"larger than {limit} bytes")
    chunks: list[bytes] = []
    left = limit + 1
    while left > 0 and (chunk := os.read(handle, min(left, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
    if left <= 0:
        raise FileRefused(Refusal.TOO_LARGE, f"larger than {limit} bytes")
    return b"".join(chunks)


def _open_beneath(root: Path, names: tuple[str, ...]) -> int:
    pending = deque(names)
    links = 0
    with _folder_stack(root) as folders:
        while pending:
            name = pending.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                folders.leave()
                continue
            found = os.stat(name, dir_fd=folders.top, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > _MAX_LINKS:
                    raise FileRefused(Refusal.OUTSIDE, "too many symbolic links")
                pending.extendleft(reversed(folders.follow(os.readlink(name, dir_fd=folders.top))))
            elif stat.S_ISDIR(found.st_mode):
                folders.enter(name)
            else:
                return _open_file(folders.top, name, found, is_last=not any(rest != "." for rest in pending))
    raise FileRefused(Refusal.FOLDER, "a folder, not a file")


def _open_file(folder: int, name: str, found: os.stat_result, *, is_last: bool) -> int:
    for is_kind, word in _KINDS:
        if is_kind(found.st_mode):
            raise FileRefused(Refusal.NOT_A_FILE, f"{word}, not a file")
    if not is_last:
        raise FileRefused(Refusal.MISSING, "no such file")
    handle = os.open(name, _READ, dir_fd=folder)
    opened = os.fstat(handle)
    if not stat.S_ISREG(opened.st_mode):
        os.close(handle)
        raise FileRefused(Refusal.NOT_A_FILE, "not a file")
    return handle


class _Folders:
    """The open folders from the root down to where a walk stands."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]

    @property
    def top(self) -> int:
        return self._open[-1]

    def enter(self, name: str) -> None:
        if name == ".git":
            raise FileRefused(Refusal.OUTSIDE, "the path leads into git's own folder")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._open.append(os.open(name, flags, dir_fd=self.top))

    def leave(self) -> None:
        if len(self._open) == 1:
            raise FileRefused(Refusal.OUTSIDE, "a symbolic link leads out of the repository")
        os.close(self._open.pop())

    def follow(self, target: str) -> list[str]:
        """The components to walk on with, after a link to `target`."""
        if not target.startswith("/"):
            return target.split("/")
        names = [name for name in target.split("/") if name]
        top = list(self._root.parts[1:])
        if names[: len(top)] != top:
            raise FileRefused(Refusal.OUTSIDE, "a symbolic link leads out of the repository")
        while len(self._open) > 1:
            os.close(self._open.pop())
        return names[len(top) :]

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())


@contextlib.contextmanager
def _folder_stack(root: Path) -> Iterator[_Folders]:
    folders = _Folders(root)
    try:
        yield folders
    finally:
        folders.close()
