"""What a doctor says of the keys of a store: those that sign, and those that values are encrypted with."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from reenact.errors import StoreUnavailable
from reenact.store.doctor.findings import NAMED, Finding, counted
from reenact.store.encryption import SUFFIX, key_name, read_keys
from reenact.store.keys.here import VARIABLE, files_beside, given_places
from reenact.store.location import to_type
from reenact.store.signing import read_key


class KeyPlace(NamedTuple):
    """Where the keys of a store lie."""

    path: Path
    """What the names of their files begin with."""
    url: str
    """Of the store, for what is to be typed."""


def look_at_keys(
    place: KeyPlace, keys: Mapping[str, str] | None, used: Collection[str], lost: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    """`keys` are the public keys that the store knows, None where it could not be asked.

    `used` names the encryption keys that its values are encrypted with, `lost` the signing keys that are needed and not
    here, each with the open runs that began with it.
    """
    yield encryption(Path(f"{place.path}{SUFFIX}"), used)
    yield from signing(place, keys, lost)


def lost_advice(database: KeyPlace, in_the_way: Path | None = None) -> str:
    """A file in the place of the key that is none is to be moved away first, to a name that no key has."""
    replace = to_type(database.url, "keys", "replace", "--lost", "--reason", "…")
    unset = "" if given_places() else ", which is not set, if it lies elsewhere"
    where = f"name it in {VARIABLE}{unset}, or put it back from a backup"
    if in_the_way is not None:
        replace = f"{shlex.join(['mv', str(in_the_way), f'{database.path}.damaged-key'])}` and then `{replace}"
    return f"{where}; where there is none, `{replace}` lets its runs go on"


def signing(database: KeyPlace, keys: Mapping[str, str] | None, lost: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """The signing keys: where the host says, else beside the store."""
    found = given() if given_places() else beside(database, keys)
    if found.verdict != "ok" or not lost:
        yield found
    if found.verdict != "trouble":
        yield from (lost_key(database, kid, runs) for kid, runs in lost.items() if runs or found.verdict == "ok")


def lost_key(database: KeyPlace, kid: str, runs: Sequence[str]) -> Finding:
    more = f" and {len(runs) - NAMED} more" if len(runs) > NAMED else ""
    needed = f"{counted(len(runs), 'open run')} began with it: {', '.join(runs[:NAMED])}{more}"
    says = f"{kid} is not here, and {needed if runs else 'it signs for new runs'}"
    return Finding("key", "warning", says, lost_advice(database))


def given() -> Finding:
    return Finding("key", "ok", f"{VARIABLE} names the keys that sign; `reenact keys list` shows them")


def beside(database: KeyPlace, keys: Mapping[str, str] | None) -> Finding:
    first, *later = files_beside(database.path)
    there = [file for file in (first, *later) if os.path.lexists(file)]
    if not there and keys:
        says = f"{first} is not there, and this store is signed with {', '.join(sorted(keys))}"
        return Finding("key", "warning", says, lost_advice(database))
    if not there:
        return Finding("key", "ok", f"{first} is not there: the first run makes it")
    found = [key(file, keys, database) for file in there]
    return next((one for one in found if one.verdict != "ok"), found[-1])


def key(path: Path, keys: Mapping[str, str] | None, database: KeyPlace) -> Finding:
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
