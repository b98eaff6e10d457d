"""System calls that Python has no function for, by number or through libc; each raises OSError where it fails."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 24, 36, 38, 22
_PR_CAP_AMBIENT, _CLEAR_ALL = 47, 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522

# PyDLL holds the interpreter's lock across the call, so that a clone comes back into a whole interpreter.
LIBC: Final = ctypes.PyDLL(None, use_errno=True)


def checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def call(number: int, *arguments: object) -> int:
    """A system call by its number: integers go as long, texts as paths, and arrays by reference."""
    given = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return checked(int(LIBC.syscall(ctypes.c_long(number), *given)))


def words(*values: int) -> ctypes.Array[ctypes.c_uint64]:
    """A struct that is nothing but 64-bit words."""
    return (ctypes.c_uint64 * len(values))(*values)


def prctl(option: int, first: object = 0, second: object = 0) -> int:
    given = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in (first, second, 0, 0)]
    return checked(int(LIBC.prctl(option, *given)))


def mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int, data: bytes | None) -> None:
    checked(int(LIBC.mount(source, target, kind, ctypes.c_ulong(flags), data)))


def no_new_privileges() -> None:
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def signal_when_parent_dies(number: int) -> None:
    prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """What a descendant leaves behind becomes a child of this process."""
    prctl(_PR_SET_SUBREAPER, 1)


def drop_capabilities() -> None:
    """All of them, and for good: also for root nothing comes back with the next program."""
    # What these say is not asked: EINVAL is beyond the last one, and EPERM is of a user who has none to lose.
    for capability in range(64):
        LIBC.prctl(_PR_CAPBSET_DROP, *map(ctypes.c_ulong, (capability, 0, 0, 0)))
    LIBC.prctl(_PR_CAP_AMBIENT, *map(ctypes.c_ulong, (_CLEAR_ALL, 0, 0, 0)))
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    checked(int(LIBC.capset(header, (ctypes.c_uint32 * 6)())))


def install_filter(program: bytes) -> None:
    """A seccomp filter, as `seccomp.program` makes it."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(Program(len(program) // 8, program)))
