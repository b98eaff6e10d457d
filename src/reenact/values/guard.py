"""The guard of a struct class: shows, for one record, that msgspec's encoder writes its RFC 8785 bytes.

The checks are compiled once per class into one function over its fields: this is what makes a log entry cost about as
much to check as it costs to encode.
"""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable
from keyword import iskeyword
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET
from msgspec.structs import astuple

from reenact.values.parse import MAX_DEPTH, MAX_SAFE_INTEGER
from reenact.values.shape import shape_of

Guard = Callable[[Any, int], bool]


def compile_guard(cls: type[msgspec.Struct], is_exact: Guard) -> Guard:
    """One function `guard(struct, depth)` with a check per field; annotations only say what to try first."""
    if not shape_of(cls).same_as_encoder:
        return lambda _struct, _depth: False
    if any(not name.isascii() or not name.isidentifier() or iskeyword(name) for name in cls.__struct_fields__):
        return lambda struct, depth: is_exact([item for item in astuple(struct) if item is not UNSET], depth)
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
