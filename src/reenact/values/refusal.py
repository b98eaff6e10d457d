"""Error messages for values that canonical JSON cannot express. Never the value itself: it may be a secret."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from uuid import UUID

import msgspec

_ADVICE: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (Enum, "an enum member, {name} (pass its .value)"),
    ((bytes, bytearray, memoryview), "{name} (encode it as text, for example hex)"),
    (UUID, "a {name} (pass str() of it)"),
    ((date, time, timedelta), "a {name} (pass it as text)"),
    (Decimal, "a {name} (pass it as a string, or as an integer of a smaller unit)"),
    (AbstractSet, "a {name}, which has no order (pass a sorted list)"),
    (msgspec.UnsetType, "UNSET outside a struct's field (leave the key out)"),
    (msgspec.Struct, "an array-like struct, {name}, whose fields have no names in JSON (pass a list)"),
    (msgspec.Raw, "raw JSON that nobody has read (decode it first)"),
    (
        (str, int, float, tuple, list, dict),
        "a subclass of a JSON type, {name} (convert it to the plain type)",
    ),
)


def advice(value: object) -> str:
    """One clause that names the type of `value` and what to pass in its place."""
    name = type(value).__name__
    for kinds, text in _ADVICE:
        if isinstance(value, kinds):
            return text.format(name=name)
    return f"a value of type {name}, which JSON cannot express"
