"""The guard of the fast way: shows, for one value, that msgspec's encoder writes its RFC 8785 bytes.

Types are compared by identity, since msgspec also encodes enums, bytes, dates and sets, which are to be
refused. For a struct class the checks are compiled once into one function over its fields: this is what makes
a log entry cost about as much to check as it costs to encode.
"""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable
from keyword import iskeyword
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET

from reenact.values.shape import shape_of

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON reader holds exactly; its negative is the smallest."""

MAX_DEPTH: Final = 256
"""How many arrays and objects may stand in each other. A fixed number, so that the same value is accepted
on every machine and from every depth of the caller's stack."""

Guard = Callable[[Any, int], bool]

_MOST: Final = MAX_SAFE_INTEGER
_LEAST: Final = -MAX_SAFE_INTEGER

GUARDS: dict[type, Guard] = {}
"""The guard of each type that has parts; those of struct classes are added when they are first met."""


def is_exact(value: Any, depth: int = 0) -> bool:
    """True if the C encoder is known to write what the strict writer would; False decides nothing.

    Lone surrogates are left to the encoder, which refuses them.
    """
    kind: type = type(value)
    guard = GUARDS.get(kind)
    if guard is not None:
        return guard(value, depth)
    if kind is str or kind is bool or kind is NoneType:
        return True
    if kind is int:
        return bool(_LEAST <= value <= _MOST)
    if kind is float:
        return _is_plain_decimal(value)
    if isinstance(value, msgspec.Struct):
        guard = GUARDS[kind] = _compile(kind)
        return guard(value, depth)
    return False


def _is_plain_decimal(value: float) -> bool:
    """Within these bounds every printer of shortest decimals writes digits, a point and digits."""
    return (0.001 <= value < 1e9 or -1e9 < value <= -0.001) and not value.is_integer()


def _array_is_exact(items: Any, depth: int) -> bool:
    if depth >= MAX_DEPTH:
        return False
    for item in items:
        kind = type(item)
        if kind is str or kind is bool or kind is NoneType:
            continue
        if kind is int and _LEAST <= item <= _MOST:
            continue
        if not is_exact(item, depth + 1):
            return False
    return True


def _object_is_exact(members: dict[Any, Any], depth: int) -> bool:
    if depth >= MAX_DEPTH:
        return False
    for key, item in members.items():
        if type(key) is not str or not key.isascii():
            return False
        kind = type(item)
        if kind is str or kind is bool or kind is NoneType:
            continue
        if kind is int and _LEAST <= item <= _MOST:
            continue
        if not is_exact(item, depth + 1):
            return False
    return True


GUARDS[dict] = _object_is_exact
GUARDS[list] = GUARDS[tuple] = _array_is_exact


def _never(_value: object, _depth: int) -> bool:
    return False


def _fields_are_exact(struct: msgspec.Struct, depth: int) -> bool:
    return _array_is_exact([item for item in msgspec.structs.astuple(struct) if item is not UNSET], depth)


def _compile(cls: type[msgspec.Struct]) -> Guard:
    """One function `guard(struct, depth)` with a check per field; annotations only say what to try first."""
    if not shape_of(cls).same_as_encoder:
        return _never
    if any(not name.isascii() or not name.isidentifier() or iskeyword(name) for name in cls.__struct_fields__):
        return _fields_are_exact
    hints: dict[str, object] = {}
    with contextlib.suppress(Exception):  # annotations that cannot be resolved cost speed, not correctness
        hints = typing.get_type_hints(cls)
    checks = [f"depth < {MAX_DEPTH}", *(_check(name, hints.get(name)) for name in cls.__struct_fields__)]
    source = "def guard(struct, depth):\n    return " + " and ".join(checks)
    names = {"UNSET": UNSET, "is_exact": is_exact}
    exec(source, names)  # noqa: S102 - made of the field names of a class and of constants, nothing else
    return cast("Guard", names["guard"])


def _check(name: str, hint: object) -> str:
    """An expression that is true when the field `name` is safe to encode."""
    field = f"struct.{name}"
    anything = f"({field} is UNSET or is_exact({field}, depth + 1))"
    expected = _scalars(hint) - {msgspec.UnsetType}
    if expected == {str}:
        return f"(type({field}) is str or {anything})"
    if expected == {str, NoneType}:
        return f"(type({field}) is str or {field} is None or {anything})"
    if expected == {int}:
        bounds = f"-{MAX_SAFE_INTEGER} <= {field} <= {MAX_SAFE_INTEGER}"
        return f"(type({field}) is int and {bounds} or {anything})"
    return anything


def _scalars(hint: object) -> set[object]:
    """The set of types that a field is declared with, where that is easily said."""
    if get_origin(hint) is Literal:
        return {type(choice) for choice in get_args(hint)}
    if get_origin(hint) in (Union, UnionType):
        return set().union(*(_scalars(choice) for choice in get_args(hint)))
    return {hint} if isinstance(hint, type) else {None}
