"""seccomp: the system calls that a command may not make, as a small BPF program (linux/filter.h, linux/seccomp.h).

Everything else is allowed, but for calls newer than this list, which are answered as a kernel that lacks them does.
A call through another architecture's door (i386, x32) ends the process.
"""

from __future__ import annotations

import errno
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take longer than all else here
    from typing import Final

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_KILL_PROCESS, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # in struct seccomp_data; the low half of an argument comes first
_X32_BIT = 0x40000000
_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW… that clone() takes
_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET = 1, 1, 5
_TYPE_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_CHANGE_ATTRIBUTES = (0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40806685)
"""FS_IOC_SETFLAGS in both sizes, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION, FS_IOC_ENABLE_VERITY: of a file open to read."""
_LAST_KNOWN = 462  # mseal

MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""AUDIT_ARCH_… of each, and its column in the tables."""

Table = dict[str, tuple[int | None, int | None]]

ALWAYS: Final[Table] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "statmount": (457, 457), "listmount": (458, 458),
    "unshare": (272, 97), "setns": (308, 268),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "syslog": (103, 116),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
    "modify_ldt": (154, None), "vhangup": (153, 58), "lookup_dcookie": (212, 18),
    # Memory that belongs to no process, or outlives it, and that no limit would count.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "semget": (64, 190),
    "msgget": (68, 186), "mq_open": (240, 180),
}  # fmt: skip
"""Refused to every command."""

OF_ATTRIBUTES: Final[Table] = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}  # fmt: skip
"""Refused where everything outside the workspace is not read-only: Landlock does not ask about them."""

OF_OTHERS: Final[Table] = {
    "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274),
}  # fmt: skip
"""Allowed only about the caller itself, process 0, where it sees the processes of others."""

OF_PRIORITIES: Final[dict[str, tuple[int, int, int]]] = {"setpriority": (141, 140, 0), "ioprio_set": (251, 30, 1)}
"""Likewise; the third is the word for "one process" in the first argument. A user's processes are others too."""

OF_SOCKETS: Final[Table] = {
    "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242),
    "inotify_add_watch": (254, 27),
}  # fmt: skip
"""Refused where paths outside can be named: a Unix socket is reached, a folder watched, without being opened."""

SPECIAL: Final[Table] = {
    "socket": (41, 198), "socketpair": (53, 199), "clone": (56, 220), "clone3": (435, 435), "ioctl": (16, 29),
}  # fmt: skip


class Surroundings:
    """What the back-end already keeps apart."""

    def __init__(self, *, paths: bool, read_only: bool, processes: bool) -> None:
        self.paths = paths
        """Nothing outside can be named: an own root, so that Unix sockets lead nowhere else."""
        self.read_only = read_only
        """Everything outside the workspace is on a read-only mount."""
        self.processes = processes
        """An own process namespace."""


_Code = list[tuple[int, int, int, int]]


def program(around: Surroundings, machine: str | None = None) -> bytes:
    """The filter for this machine; OSError for one whose calls are not known."""
    known = MACHINES.get(machine or os.uname().machine)
    if known is None:
        raise OSError(f"no system call filter is known for {machine or os.uname().machine}")
    architecture, column = known
    code = _preamble(architecture, x86=column == 0)
    refused = dict(ALWAYS)
    if not around.read_only:
        refused |= OF_ATTRIBUTES
    if not around.paths:
        refused |= OF_SOCKETS
    for numbers in refused.values():
        code += _on(numbers[column], [_error(errno.EPERM)])
    if not around.processes:
        for numbers in OF_OTHERS.values():
            code += _on(numbers[column], _only(0, 0))
        for *places, word in OF_PRIORITIES.values():
            code += _on(places[column], [*_only(0, word)[:2], _error(errno.EPERM), *_only(1, 0)])
    # clone3 hides its flags behind a pointer; libraries fall back to clone where it is not there.
    code += _on(SPECIAL["clone3"][column], [_error(errno.ENOSYS)])
    code += _on(
        SPECIAL["clone"][column],
        [_argument(0), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), _error(errno.EPERM), (_RETURN, 0, 0, _ALLOW)],
    )
    code += _on(SPECIAL["socket"][column], _only(0, _AF_UNIX) if around.paths else [_error(errno.EACCES)])
    code += _on(SPECIAL["socketpair"][column], _connected_pair())
    requests = _TYPE_TERMINAL_INPUT + (() if around.read_only else _CHANGE_ATTRIBUTES)
    code += _on(SPECIAL["ioctl"][column], _none_of(1, requests))
    code += [(_AT_LEAST, 0, 1, _LAST_KNOWN + 1), _error(errno.ENOSYS), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _preamble(architecture: int, *, x86: bool) -> _Code:
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    return code + ([(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL_PROCESS)] if x86 else [])


def _on(number: int | None, then: _Code) -> _Code:
    """`then`, which decides on every way, for this call; the next instruction for all others."""
    return [] if number is None else [(_EQUAL, 0, len(then), number), *then]


def _error(number: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERRNO | number)


def _argument(place: int) -> tuple[int, int, int, int]:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * place)


def _only(place: int, value: int) -> _Code:
    """Allowed where the argument is this, which the kernel takes as 32 bits."""
    return [_argument(place), (_EQUAL, 1, 0, value), _error(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]


def _none_of(place: int, values: tuple[int, ...]) -> _Code:
    code = [_argument(place)]
    for value in values:
        code += [(_EQUAL, 0, 1, value), _error(errno.EPERM)]
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _connected_pair() -> _Code:
    """Both ends inside: not of datagrams, whose ends can be pointed at any address later."""
    return [
        _argument(0), (_EQUAL, 1, 0, _AF_UNIX), _error(errno.EACCES),
        _argument(1), (_AND, 0, 0, 0xF),
        (_EQUAL, 2, 0, _SOCK_STREAM), (_EQUAL, 1, 0, _SOCK_SEQPACKET), _error(errno.EACCES),
        (_RETURN, 0, 0, _ALLOW),
    ]  # fmt: skip
