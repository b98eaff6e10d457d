"""Namespaces for a command: its own processes, no network, and mounts on which only the workspace can be changed.

Without bubblewrap, where the kernel lets this user have them: root, or anyone where user namespaces are allowed.
"""

from __future__ import annotations

import os
import signal

from reenact.builtin.sandbox import kernel

_CLONE = {"x86_64": 56, "aarch64": 220}
_MOUNT_SETATTR = 442
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_ALL = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY = 1


def clone() -> int | None:
    """Forks into new namespaces: the child's id, 0 in the child, which is process 1 there; None where not allowed."""
    number = _CLONE.get(os.uname().machine)
    if number is None:
        return None
    user, group = os.geteuid(), os.getegid()
    for flags in (_ALL, _ALL | _NEWUSER):
        try:
            child = kernel.call(number, flags | signal.SIGCHLD, 0, 0, 0, 0)
        except OSError:
            continue
        if child == 0 and flags & _NEWUSER:
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{user} {user} 1")
            _write("/proc/self/gid_map", f"{group} {group} 1")
        return child
    return None


def arrange_mounts(workspace: str, ways: list[str], hidden: list[str]) -> None:
    """In the child: everything is read-only but the workspace, and the folders in `hidden` are empty.

    `ways` are the folders of the workspace that lead to those: as mount points they cannot be renamed, so that nobody
    puts others in their place.
    """
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    writable = _writable_beneath(workspace)
    _mount(workspace, workspace, None, _MS_BIND | _MS_REC)
    for folder in ways:
        _mount(folder, folder, None, _MS_BIND | _MS_REC)
        writable.append(folder)
    _set_attributes("/", _AT_RECURSIVE, on=_ATTR_RDONLY)
    for folder in writable:
        _set_attributes(folder, 0, off=_ATTR_RDONLY)
    for folder in hidden:
        _mount("tmpfs", folder, "tmpfs", _MS_RDONLY | _MS_NOSUID | _MS_NODEV, "size=4k,mode=0555")


def _writable_beneath(workspace: str) -> list[str]:
    """The workspace and the mounts in it that can be written to today: what is read-only stays so."""
    places = [workspace]
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            place = line.split()[4].replace("\\040", " ")
            if place.startswith(workspace.rstrip("/") + "/"):
                places.append(place)
    return [place for place in places if not os.statvfs(place).f_flag & os.ST_RDONLY]


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    from_, kind_, data_ = (None if text is None else os.fsencode(text) for text in (source, kind, data))
    kernel.mount(from_, os.fsencode(target), kind_, flags, data_)


def _set_attributes(path: str, flags: int, *, on: int = 0, off: int = 0) -> None:
    kernel.call(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, kernel.words(on, off, 0, 0), 32)
