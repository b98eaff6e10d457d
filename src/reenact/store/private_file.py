"""Private files beside a store (its keys): made whole, durable and for their owner alone, and read only if they are so.

A draft has a name that is nobody else's, and its maker holds a lock on it: a draft that nobody locks was left by a
process that died, and goes when the next one is made.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp, mkstemp
from typing import BinaryIO

from reenact.errors import StoreUnavailable

try:
    import fcntl
except ImportError:  # pragma: no cover  # only where the system has no such locks
    fcntl = None  # type: ignore[assignment]

DRAFT = ".draft-"
EXPORT_DRAFT = ".reenact-export-"
LARGEST = 1 << 16
"""A key has some hundred bytes."""
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What file systems without hard links say."""


def make_private_file(path: Path, content: bytes, what: str) -> bool:
    """False where another process made it first: then that one counts. `what` names it in an error."""
    try:
        while True:
            sweep(path)
            try:
                return _made(path, content)
            except FileNotFoundError:
                if not path.parent.is_dir():
                    raise
                # somebody took the draft for a leftover in the moment before it was locked
    except OSError as error:
        raise StoreUnavailable(f"{what} {path} cannot be written: {error.strerror}") from None


def _made(path: Path, content: bytes) -> bool:
    descriptor, draft = mkstemp(prefix=f"{path.name}{DRAFT}", dir=path.parent)  # with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            is_ours = _put_in_place(Path(draft), path)
            sync_folder(path.parent)
    finally:
        Path(draft).unlink(missing_ok=True)
    return is_ours


def _put_in_place(draft: Path, path: Path) -> bool:
    """Never over one that is there."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with locked(path.parent):
            if os.path.lexists(path):
                return False
            draft.rename(path)
    return True


def replace_private_file(path: Path, content: bytes, what: str) -> None:
    """Another content in the place of a file that is there: whole, or as it was."""
    try:
        descriptor, draft = mkstemp(prefix=f"{path.name}{DRAFT}", dir=path.parent)  # with mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(draft).replace(path)
            sync_folder(path.parent)
        finally:
            Path(draft).unlink(missing_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"{what} {path} cannot be written: {error.strerror}") from None


def new_private(path: Path) -> BinaryIO:
    """A new file to write, which is its owner's alone."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def sweep(path: Path, later: str = "") -> None:
    """Drafts of this file that nobody is making any more; also of those that `later` matches behind its name."""
    remove_unlocked(path.parent.glob(f"{escape(path.name)}{later}{DRAFT}*"), os.O_RDWR, Path.unlink)


def remove_unlocked(drafts: Iterable[Path], flags: int, remove: Callable[[Path], object]) -> None:
    for draft in drafts if fcntl is not None else ():
        with suppress(OSError):
            descriptor = os.open(draft, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(draft)
            finally:
                os.close(descriptor)


@contextmanager
def draft_folder(parent: Path) -> Iterator[Path]:
    """A new folder to fill, its owner's alone, and then to be put in its place; gone where that did not come about.

    Those that processes left which were killed go first.
    """
    remove_unlocked(parent.glob(f"{EXPORT_DRAFT}*"), os.O_RDONLY | os.O_DIRECTORY, rmtree)
    with ExitStack() as held:
        draft = parent / EXPORT_DRAFT
        while not draft.is_dir():  # again, where somebody took it for a leftover before it was locked
            draft = Path(mkdtemp(prefix=EXPORT_DRAFT, dir=parent))
            with suppress(FileNotFoundError):
                held.enter_context(locked(draft))
        try:
            yield draft
        except BaseException:
            rmtree(draft, ignore_errors=True)
            raise


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One at a time, among those who ask."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_private_file(path: Path, what: str, *, follow: bool = False) -> bytes:
    """Its content; FileNotFoundError where there is none, StoreUnavailable where it is not its reader's alone.

    A link is not followed, unless `follow` says that whoever named the file meant it.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(path, flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreUnavailable(f"{what} {path} is a link; put the file itself there") from None
        raise StoreUnavailable(f"{what} {path} cannot be read: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        refuse_open_to_others(path, status, what)
        if status.st_nlink > 1 and not follow:
            sweep(path)  # its maker died between its two names
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(LARGEST)
    finally:
        os.close(descriptor)


def refuse_open_to_others(path: Path, status: os.stat_result, what: str) -> None:
    """As ssh does: whoever else could read it could sign, and whoever else owns it could put another there."""
    quoted = shlex.quote(str(path))
    if stat.S_ISDIR(status.st_mode):
        raise StoreUnavailable(
            f"{what} {path} is a folder, as containers make one where the file that they mount is not there; put the "
            "file itself there"
        )
    if not stat.S_ISREG(status.st_mode):
        raise StoreUnavailable(f"{what} {path} is not a file; put the file itself there")
    if not hasattr(os, "getuid"):  # pragma: no cover  # modes say nothing there
        return
    if status.st_uid != os.getuid():
        raise StoreUnavailable(
            f"{what} {path} belongs to another user ({status.st_uid}); make it yours: "
            f"chown {os.getuid()} {quoted} && chmod 600 {quoted}"
        )
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise StoreUnavailable(f"{what} {path} is open to others (mode {mode:o}) and is not used; chmod 600 {quoted}")


def sync_folder(folder: Path) -> None:
    """What is written with a key must not outlive it: its name is durable before anything uses it. Also of a file."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
