"""Atomic file writing: a file is written whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path`: a reader sees the old content or the new, also after a power cut. The mode of a file
    that is there is kept; a link in its place is followed."""
    target = Path(os.path.realpath(path))
    with contextlib.ExitStack() as on_failure:
        handle, name = tempfile.mkstemp(prefix=".replay-", suffix=".tmp", dir=target.parent)
        on_failure.callback(_remove, name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), _mode_of(target))
            os.fsync(file.fileno())
        Path(name).replace(target)
        on_failure.pop_all()
    _sync_folder(target.parent)


def _remove(name: str) -> None:
    with contextlib.suppress(OSError):
        Path(name).unlink()


def _mode_of(target: Path) -> int:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        return 0o644


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where the file system lets a folder be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
