"""TOML of whoever's file: a project's manifest, a policy that lies in the current folder."""

from __future__ import annotations

import tomllib
from typing import Final

MOST_WORK: Final = 5_000_000
"""Parts of keys that Python's reader makes at most. It makes every beginning of a dotted key, with the whole name of
its table before each, and keeps them."""


def parse_toml(data: bytes) -> dict[str, object]:
    """The document; ValueError where it is no TOML, has a number without end, or would take too long to read."""
    if work(data) > MOST_WORK:
        raise ValueError("its dotted keys and the names of its tables have too many parts")
    try:
        return tomllib.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def work(data: bytes) -> int:
    """No less than the parts that are made: wherever a key may stand, it ends with a line or at an equals sign."""
    found = table = 0
    for line in data.split(b"\n"):
        if line.lstrip().startswith(b"["):  # it may stand in a text, and end no table: the longest counts from here on
            table = max(table, line.count(b"."))
        for piece in line.split(b"="):
            parts = piece.count(b".") + 1
            found += parts * (parts + table)
    return found
