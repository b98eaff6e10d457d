"""Makes a private file (a key) beside a store: whole, durable, mode 0600, and never over one that is there."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO

from reenact.errors import StoreUnavailable


def make_private_file(path: Path, content: bytes, what: str) -> bool:
    """False where another process made it first: then that one counts. `what` names it in an error."""
    try:
        descriptor, fresh = mkstemp(prefix=f"{path.name}.", dir=path.parent)  # with mode 0600
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)
        except FileExistsError:
            return False
        finally:
            Path(fresh).unlink()
        sync_folder(path.parent)
    except OSError as error:
        raise StoreUnavailable(f"{what} {path} cannot be written: {error.strerror}") from None
    return True


def new_private(path: Path) -> BinaryIO:
    """A new file to write, which is its owner's alone."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def sync_folder(folder: Path) -> None:
    """What is written with a key must not outlive it: its name is durable before anything uses it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
