"""What is read from outside is bounded: files by their size, numbers by their digits, TOML by its dotted keys."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

LARGEST_FILE: Final = 64 << 20
"""Of a plan, a registry, a list of secrets or keys, a file of rules: whatever is read whole and parsed."""
MOST_DIGITS: Final = 15
"""Numbers with more are no place in a list, no port, no length of anything."""
MOST_WORK: Final = 5_000_000
"""Parts of keys that Python's reader of TOML makes at most. It makes every beginning of a dotted key, with the whole
name of its table before each, and keeps them."""


class TooLarge(OSError):
    """A file with more bytes than are read. An OSError, since to whoever reads it it is one more way to fail."""

    def __init__(self, most: int) -> None:
        super().__init__(0, f"it has more than {most} bytes")


def read_file(path: str | Path, most: int = LARGEST_FILE) -> bytes:
    """The bytes of a file; an endless one (a device, a pipe) is read no further than that."""
    with Path(path).open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLarge(most)
    return data


def whole_number(text: str) -> int | None:
    """The number that a few ASCII digits spell. `str.isdigit` also takes ², and `int` raises for thousands of them."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def place_in(items: list[object], text: str) -> int | None:
    """The index that a text names in a list; None where it names none that is there."""
    found = whole_number(text)
    return found if found is not None and found < len(items) else None


def parse_toml(data: bytes) -> dict[str, object]:
    """The document; ValueError where it is no TOML, has a number without end, or would take too long to read."""
    if toml_work(data) > MOST_WORK:
        raise ValueError("its dotted keys and the names of its tables have too many parts")
    try:
        return tomllib.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def toml_work(data: bytes) -> int:
    """No less than the parts that are made: wherever a key may stand, it ends with a line or at an equals sign."""
    found = table = 0
    for line in data.split(b"\n"):
        if line.lstrip().startswith(b"["):  # it may stand in a text, and end no table: the longest counts from here on
            table = max(table, line.count(b"."))
        for piece in line.split(b"="):
            parts = piece.count(b".") + 1
            found += parts * (parts + table)
    return found
