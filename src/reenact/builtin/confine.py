"""Sandboxing a command to one folder (Landlock): `python confine.py CONFIG EXECUTABLE [ARGUMENT …]`.

Started as a program of its own and importing nothing of this project: it gives up every right that CONFIG does not
name, by Landlock (Linux 5.13 and later), and then becomes the command. What it gave up cannot be taken back, by the
command or by anything that the command starts.

CONFIG is a JSON object: `write` and `read` hold folders and files, `report` is the number of a pipe on which a
failure to start the command is told, since any exit code may be the command's own.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import sys

# linux/landlock.h
_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ALL_OF_VERSION_1 = (1 << 13) - 1
_TCP_BIND_AND_CONNECT = 0b11
_SCOPE_SOCKETS_AND_SIGNALS = 0b11
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("parent", ctypes.c_int32))


def landlock_version() -> int:
    """The kernel's version of Landlock, 0 where it has none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))))


def confine(write: list[str], read: list[str]) -> None:
    """Leaves this process the right to change what is beneath `write` and to read and run what is beneath `read`.

    TCP is taken away too, where the kernel can (6.7 and later). OSError where there is no Landlock.
    """
    version = landlock_version()
    if version == 0:
        raise OSError("this kernel has no Landlock")
    libc = ctypes.CDLL(None, use_errno=True)
    handled = _ALL_OF_VERSION_1
    handled |= _REFER if version >= 2 else 0
    handled |= _TRUNCATE if version >= 3 else 0
    handled |= _IOCTL_DEV if version >= 5 else 0
    rules = _Ruleset(
        handled,
        _TCP_BIND_AND_CONNECT if version >= 4 else 0,
        _SCOPE_SOCKETS_AND_SIGNALS if version >= 6 else 0,
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _checked(libc.syscall(_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0)))
    for paths, access in ((write, handled), (read, _EXECUTE | _READ_FILE | _READ_DIR)):
        for path in paths:
            _allow(libc, ruleset, path, access)
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.syscall(_RESTRICT, ruleset, ctypes.c_uint32(0)))
    os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no right
    if not stat.S_ISDIR(os.fstat(parent).st_mode):
        access &= _OF_FILES
    rule = _PathBeneath(access, parent)
    _checked(libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0)))
    os.close(parent)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def main(arguments: list[str]) -> int:
    config = json.loads(arguments[0])
    report: int = config["report"]
    os.set_inheritable(report, False)  # noqa: FBT003 - the signature is the standard library's
    try:
        confine(config["write"], config["read"])
        # No search along PATH here: it would import modules, which can no longer be read.
        os.execv(arguments[1], arguments[1:])  # noqa: S606 - becoming the command is the purpose
    except OSError as error:
        os.write(report, type(error).__name__.encode())
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
