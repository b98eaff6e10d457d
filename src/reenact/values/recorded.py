"""Values as a record gives them back. What is handed on now must be what is handed on when it is read again."""

from __future__ import annotations

from math import isfinite
from typing import cast

from reenact.values.canonical import MAX_SAFE_INTEGER, canonicalize, read_back


def as_recorded(value: object) -> object:
    """The value that `parse_canonical` reads from the canonical bytes of `value`; `value` itself where they are one.

    Canonical JSON has one spelling for 2 and 2.0, for a list and a tuple, and for the order of keys. What it has none
    for is a CanonicalizationError.
    """
    try:
        if _reads_back(value):
            return value
    except RecursionError:
        pass  # too deep, or a circle: refused below, with the place
    return read_back(canonicalize(value))


def number_as_recorded(value: float) -> int | float:
    """A finite float as it is read again: whole ones are integers, as far as those are exact."""
    return int(value) if value.is_integer() and abs(value) <= MAX_SAFE_INTEGER else value


def _reads_back(value: object) -> bool:
    kind = type(value)
    if kind is str:
        return cast("str", value).isascii() or _is_unicode(cast("str", value))
    if kind is int:
        return -MAX_SAFE_INTEGER <= cast("int", value) <= MAX_SAFE_INTEGER
    if kind is bool or value is None:
        return True
    if kind is float:
        return isfinite(cast("float", value)) and type(number_as_recorded(cast("float", value))) is float
    if kind is dict:
        members = cast("dict[object, object]", value)
        last = ""
        for key, item in members.items():
            if type(key) is not str or not key.isascii() or key < last or not _reads_back(item):
                return False  # a key that is not ASCII may be in its place; canonical JSON knows
            last = key
        return True
    return kind is list and all(map(_reads_back, cast("list[object]", value)))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
