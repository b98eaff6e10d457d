"""Root may write where nothing can be written. A process that gave its powers up may not."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path

CAPABILITY_VERSION_3 = 0x20080522


def give_up_powers() -> None:
    """From here on the permissions of files hold for this process, whoever started it. Only exec undoes it."""
    if os.geteuid() != 0:
        return
    assert sys.platform == "linux", "run the tests as an ordinary user here"
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    none = struct.pack("6I", *[0] * 6)
    if libc.capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def shut(folder: Path) -> None:
    """Nothing in the folder can be written, nor anything be put there."""
    for path in folder.iterdir():
        path.chmod(0o400 if path.name.endswith("key") else 0o444)  # a key that others can read is not used
    folder.chmod(0o555)


def reopen(folder: Path) -> None:
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o600)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
