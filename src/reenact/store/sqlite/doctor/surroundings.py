"""What lies around a store: its disk, its log, its permissions, and the key beside it."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from reenact.errors import StoreUnavailable
from reenact.store.doctor.findings import NAMED, Finding, counted
from reenact.store.encryption import SUFFIX, key_name, read_keys
from reenact.store.keys.here import VARIABLE, files_beside, given_places
from reenact.store.location import to_type
from reenact.store.signing import read_key
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
    yield encryption(Path(f"{file}{SUFFIX}"), used)
    yield from signing(file, keys, lost)


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


def lost_advice(database: Path, in_the_way: Path | None = None) -> str:
    """A file in the place of the key that is none is to be moved away first, to a name that no key has."""
    replace = to_type(f"sqlite:///{database}", "keys", "replace", "--lost", "--reason", "…")
    unset = "" if given_places() else ", which is not set, if it lies elsewhere"
    where = f"name it in {VARIABLE}{unset}, or put it back from a backup"
    if in_the_way is not None:
        replace = f"{shlex.join(['mv', str(in_the_way), f'{database}.damaged-key'])}` and then `{replace}"
    return f"{where}; where there is none, `{replace}` lets its runs go on"


def signing(database: Path, keys: Mapping[str, str] | None, lost: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """The signing keys: where the host says, else beside the store."""
    found = given() if given_places() else beside(database, keys)
    if found.verdict != "ok" or not lost:
        yield found
    if found.verdict != "trouble":
        yield from (lost_key(database, kid, runs) for kid, runs in lost.items() if runs or found.verdict == "ok")


def lost_key(database: Path, kid: str, runs: Sequence[str]) -> Finding:
    more = f" and {len(runs) - NAMED} more" if len(runs) > NAMED else ""
    needed = f"{counted(len(runs), 'open run')} began with it: {', '.join(runs[:NAMED])}{more}"
    says = f"{kid} is not here, and {needed if runs else 'it signs for new runs'}"
    return Finding("key", "warning", says, lost_advice(database))


def given() -> Finding:
    return Finding("key", "ok", f"{VARIABLE} names the keys that sign; `reenact keys list` shows them")


def beside(database: Path, keys: Mapping[str, str] | None) -> Finding:
    first, *later = files_beside(database)
    there = [file for file in (first, *later) if os.path.lexists(file)]
    if not there and keys:
        says = f"{first} is not there, and this store is signed with {', '.join(sorted(keys))}"
        return Finding("key", "warning", says, lost_advice(database))
    if not there:
        return Finding("key", "ok", f"{first} is not there: the first run makes it")
    found = [key(file, keys, database) for file in there]
    return next((one for one in found if one.verdict != "ok"), found[-1])


def key(path: Path, keys: Mapping[str, str] | None, database: Path) -> Finding:
    """A signing key beside the store: readable, whole, its own, and nobody else's to read."""
    quoted = shlex.quote(str(path))
    try:
        found = read_key(path)
    except FileNotFoundError:
        return Finding("key", "warning", f"{path} went away", lost_advice(database))
    except StoreUnavailable as error:
        if path.is_symlink():
            says = f"{path} is a link to {path.readlink()}, and is not followed"
            return Finding("key", "trouble", says, f"put the file itself there, or name it in {VARIABLE}")
        if "chmod 600" in str(error) or not os.access(path, os.R_OK):
            return Finding("key", "trouble", str(error), f"chmod 600 {quoted}, as the user that runs reenact")
        return Finding("key", "trouble", str(error), lost_advice(database, path))
    if keys and found.kid not in keys:
        says = f"{path} is {found.kid}, which this store has never signed with: it may be that of another store"
        return Finding("key", "warning", says, f"put back the key that is {', '.join(sorted(keys))}")
    return Finding("key", "ok", f"{path}, mode {stat.S_IMODE(path.stat().st_mode):o}")


def encryption(path: Path, used: Collection[str]) -> Finding:
    """The encryption key beside the store: there once something was encrypted, whole, and nobody else's to read."""
    try:
        names = {key_name(each) for each in read_keys(path)}
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        if not used:
            return Finding("encryption", "ok", f"{path} is not there: nothing was encrypted with it yet")
        names, mode = set(), 0
    except StoreUnavailable as error:
        do = f"chmod 600 {shlex.quote(str(path))}" if "chmod 600" in str(error) else None
        return Finding("encryption", "trouble", str(error), do)
    lost = sorted(set(used) - names)
    if lost:
        says = f"{path} does not hold the key {', '.join(lost)}, with which values are encrypted: they stay shut"
        return Finding("encryption", "warning", says, "put it back from a backup, as a line of that file")
    return Finding("encryption", "ok", f"{path}, mode {mode:o}")


def size_of(*files: Path) -> int:
    total = 0
    for file in files:
        try:
            total += file.stat().st_size
        except OSError:
            continue  # the log comes and goes
    return total
