"""Landlock: gives up every right to files that is not named, for this process and all that it starts.

What was given up cannot be taken back. Linux 5.13 and later; see linux/landlock.h and landlock(7).
"""

from __future__ import annotations

import os
import stat
import sys

from reenact.builtin.sandbox import kernel

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ALL_OF_VERSION_1 = (1 << 13) - 1
_TCP_BIND_AND_CONNECT = 0b11
_SCOPE_SOCKETS_AND_SIGNALS = 0b11
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

SCOPES_SIGNALS = 6
"""The first version that keeps signals inside; it covers truncation, devices and TCP too."""


def version() -> int:
    """The kernel's version of Landlock, 0 where it has none."""
    if sys.platform != "linux":
        return 0
    try:
        return kernel.call(_CREATE, 0, 0, _VERSION_FLAG)
    except OSError:
        return 0


def confine(write: list[str], read: list[str]) -> None:
    """Leaves the right to change what is beneath `write` and to read and run what is beneath `read`."""
    has = version()
    if has == 0:
        raise OSError("this kernel has no Landlock")
    handled = _ALL_OF_VERSION_1
    handled |= _REFER if has >= 2 else 0
    handled |= _TRUNCATE if has >= 3 else 0
    handled |= _IOCTL_DEV if has >= 5 else 0
    rules = kernel.words(
        handled,
        _TCP_BIND_AND_CONNECT if has >= 4 else 0,
        _SCOPE_SOCKETS_AND_SIGNALS if has >= SCOPES_SIGNALS else 0,
    )
    size = 24 if has >= SCOPES_SIGNALS else 16 if has >= 4 else 8
    ruleset = kernel.call(_CREATE, rules, size, 0)
    for paths, access in ((write, handled), (read, _EXECUTE | _READ_FILE | _READ_DIR)):
        for path in paths:
            _allow(ruleset, path, access)
    kernel.no_new_privileges()
    kernel.call(_RESTRICT, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no right
    if not stat.S_ISDIR(os.fstat(parent).st_mode):
        access &= _OF_FILES
    # struct landlock_path_beneath_attr is packed: the descriptor follows in the low half of the second word.
    kernel.call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, kernel.words(access, parent), 0)
    os.close(parent)
