"""A kind of tampering: its name, the evidence that it begins from, what it does to it, and who looks at it then."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Files = dict[str, bytes]
Change = Callable[[Files], Files]


class Kind(NamedTuple):
    name: str
    of: str
    """One of `evidence.SCENARIOS`."""
    change: Change
    reader: str = "alone"
    """What he brings: nothing, `keys` that he trusts, with them a `checkpoint` of the log, or a `witness` policy.

    Or he remembers the `head` of the journal, or is the `store` itself.
    """
    in_folder: bool = False
    """Read from a disk, since it is about how that is done."""
    is_large: bool = False
    """It takes seconds, and is left to the long form."""


def put(name: str, data: bytes) -> Change:
    return lambda files: {**files, name: data}


def edit(name: str, change: Callable[[bytes], bytes]) -> Change:
    return lambda files: {**files, name: change(files[name])}


def drop(*names: str) -> Change:
    return lambda files: {name: data for name, data in files.items() if name not in names}


def swap(data: bytes, old: str, new: str) -> bytes:
    assert old.encode() in data, old
    return data.replace(old.encode(), new.encode(), 1)


def both(*changes: Change) -> Change:
    def all_of(files: Files) -> Files:
        for change in changes:
            files = change(files)
        return files

    return all_of
