"""The guard of the fast way: shows, for one value, that msgspec's encoder writes its RFC 8785 bytes.

Types are compared by identity, since msgspec also encodes enums, bytes, dates and sets, which are to be
refused. For a struct class the checks are compiled once into one function over its fields: this is what makes
a log entry cost about as much to check as it costs to encode.
"""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Final, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET

from reenact.values.shape import shape_of

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON reader holds exactly; its negative is the smallest."""

MAX_DEPTH: Final = 256
"""How many arrays and objects may stand in each other. A fixed number, so that the same value is accepted
on every machine and from every depth of the caller's stack."""

Guard = Callable[[typing.Any, int], bool]

_guards: dict[type, Guard] = {}


def is_exact(value: object, depth: int = 0) -> bool:
    """True if the C encoder is known to write what the strict writer would; False decides nothing.

    Lone surrogates are left to the encoder, which refuses them.
    """
    kind: type = type(value)
    guard = _guards.get(kind)
    if guard is not None:
        return guard(value, depth)
    if kind is str or kind is bool or kind is NoneType:
        return True
    if kind is int:
        return -MAX_SAFE_INTEGER <= cast("int", value) <= MAX_SAFE_INTEGER
    if kind is float:
        return _is_plain_decimal(cast("float", value))
    if isinstance(value, msgspec.Struct):
        guard = _guards[kind] = _compile(kind)
        return guard(value, depth)
    return False


def _is_plain_decimal(value: float) -> bool:
    """Within these bounds every printer of shortest decimals writes digits, a point and digits."""
    return (0.001 <= value < 1e9 or -1e9 < value <= -0.001) and not value.is_integer()


def _array_is_exact(items: typing.Any, depth: int) -> bool:
    if depth >= MAX_DEPTH:
        return False
    for item in items:
        kind = type(item)
        if kind is str or kind is bool or kind is NoneType:
            continue
        if not is_exact(item, depth + 1):
            return False
    return True


def _object_is_exact(members: dict[typing.Any, object], depth: int) -> bool:
    if depth >= MAX_DEPTH:
        return False
    for key, item in members.items():
        if type(key) is not str or not key.isascii():
            return False
        kind = type(item)
        if kind is str or kind is bool or kind is NoneType:
            continue
        if not is_exact(item, depth + 1):
            return False
    return True


_guards[dict] = _object_is_exact
_guards[list] = _guards[tuple] = _array_is_exact


def _never(_value: object, _depth: int) -> bool:
    return False


def _compile(cls: type[msgspec.Struct]) -> Guard:
    """One function `guard(struct, depth)` with a check per field; annotations only say what to try first."""
    if not shape_of(cls).same_as_encoder:
        return _never
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
    expected = _scalars(hint)
    if expected == {str}:
        return f"(type({field}) is str or {anything})"
    if expected == {str, NoneType}:
        return f"({field} is None or type({field}) is str or {anything})"
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
