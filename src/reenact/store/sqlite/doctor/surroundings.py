"""What lies around a store: its disk, its log, its permissions, and the key beside it."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from reenact.errors import StoreUnavailable
from reenact.store.doctor.findings import Finding
from reenact.store.doctor.keys import KeyPlace, look_at_keys
from reenact.store.sqlite.opened.files import refuse_lone_log, refuse_taken_log

MEGABYTE = 1024 * 1024
LOW_DISK = 200 * MEGABYTE
NO_DISK = 1 * MEGABYTE
LONG_LOG = 256 * MEGABYTE
LOG = ("-wal", "-shm")
NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "fuse.sshfs", "fuse.glusterfs"}


def look_from_outside(path: str) -> tuple[list[Finding], bool]:
    """What a file is before it is opened, and whether it can be."""
    file = Path(path)
    try:
        is_there, is_file = file.exists(), file.is_file()
        refuse_lone_log(path)
        refuse_taken_log(path)  # who opens it begins another log, and then nobody could tell any more
    except OSError as error:
        return [
            Finding("store", "trouble", f"{path} cannot be looked at: {error.strerror}", "check its folders")
        ], False
    except StoreUnavailable as error:
        return [Finding("store", "trouble", str(error))], False
    if not is_there:
        return [Finding("store", "note", f"{path} does not exist", "`reenact run PLAN` makes it")], False
    if not is_file:
        return [Finding("store", "trouble", f"{path} is not a file", "name a file with --store")], False
    size = size_of(file, *(Path(f"{path}{suffix}") for suffix in LOG))
    return [Finding("store", "ok", f"{path}, {size / MEGABYTE:.1f} MB with its log")], True


def look_around(
    file: Path,
    keys: Mapping[str, str] | None,
    used: Collection[str] = (),
    lost: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Iterator[Finding]:
    """`keys` are the public keys that the store knows, None where it could not be asked.

    `used` names the encryption keys that its values are encrypted with, `lost` the signing keys that are needed and not
    here, each with the open runs that began with it.
    """
    yield disk(file.parent)
    yield from network(file)
    yield from permissions(file)
    yield from long_log(Path(f"{file}-wal"))
    yield from look_at_keys(KeyPlace(file, f"sqlite:///{file}"), keys, used, lost)


def disk(folder: Path) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("disk", "warning", f"{folder} cannot be asked for its free space: {error.strerror}")
    if free < NO_DISK:
        return Finding("disk", "trouble", f"{free // 1024} kB free", "free some space: nothing can be written here")
    if free < LOW_DISK:
        return Finding("disk", "warning", f"{free // MEGABYTE} MB free", "free some space: a full disk stops all runs")
    return Finding("disk", "ok", f"{free / MEGABYTE / 1024:.1f} GB free")


def network(file: Path, mounts: Path = Path("/proc/self/mountinfo")) -> Iterator[Finding]:
    """Several hosts that share a file do not share the memory by which SQLite keeps its writers apart."""
    kind = filesystem_of(file, mounts)
    if kind in NETWORK:
        yield Finding(
            "disk",
            "warning",
            f"{file} lies on a network file system ({kind}): two hosts that write to it damage it",
            "keep it on a disk of the host that runs reenact, or let one host alone open it",
        )


def filesystem_of(file: Path, mounts: Path) -> str | None:
    """The type of the file system that holds a file, where the kernel tells."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    place, found = file.absolute().resolve(), None
    deepest = -1
    for line in lines:
        left, _, right = line.partition(" - ")
        point = Path(left.split(" ")[4].replace("\\040", " "))
        if place.is_relative_to(point) and len(point.parts) >= deepest:
            deepest, found = len(point.parts), right.split(" ")[0]
    return found


def permissions(file: Path) -> Iterator[Finding]:
    if not os.access(file, os.W_OK) or not os.access(file.parent, os.W_OK):
        yield Finding(
            "permissions",
            "warning",
            "the store cannot be written here: it can be listed, shown, verified, exported and replayed",
            "to run with it, make the file and its folder writable",
        )
        return
    for path in (Path(f"{file}{suffix}") for suffix in LOG):
        if path.exists() and not os.access(path, os.W_OK):
            yield Finding(
                "permissions",
                "warning",
                f"{path} cannot be written by this user: another one made it",
                f"give it to the user that runs reenact: chown --reference={shlex.join([str(file), str(path)])}",
            )


def long_log(log: Path) -> Iterator[Finding]:
    size = size_of(log)
    if size > LONG_LOG:
        yield Finding(
            "log",
            "warning",
            f"{log} has {size // MEGABYTE} MB: a process that reads keeps it from beginning again",
            "end what has been reading since long; the log is emptied when the store is closed",
        )


def size_of(*files: Path) -> int:
    total = 0
    for file in files:
        try:
            total += file.stat().st_size
        except OSError:
            continue  # the log comes and goes
    return total
