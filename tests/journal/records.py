"""Random records of every class that stands in a journal."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal, get_args, get_origin

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from reenact.contracts import artifacts, records
from reenact.contracts.artifacts import Record
from reenact.values.canonical import MAX_SAFE_INTEGER, canonicalize, parse_canonical

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTEGERS = st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
NAMES = st.text(st.characters(max_codepoint=127), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)

CLASSES: list[type[Record]] = sorted(
    {
        value
        for module in (artifacts, records)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Record) and value is not Record
    },
    key=lambda kind: kind.__name__,
)


def of(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Records of a class, with every field that its annotation allows."""
    hints = typing.get_type_hints(kind)
    return st.fixed_dictionaries({name: value(hints[name]) for name in kind.__struct_fields__}).map(
        lambda fields: kind(**fields)
    )


def value(hint: Any) -> st.SearchStrategy[Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([value(choice) for choice in inner])
    if origin in (list, tuple):
        return st.lists(value(inner[0]), max_size=3).map(origin)
    if origin is dict and inner[1] is object:
        return st.dictionaries(NAMES, VALUES.map(lambda found: msgspec.Raw(canonicalize(found))), max_size=3)
    if origin is dict:
        return st.dictionaries(NAMES, value(inner[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return of(hint)
    return {
        str: TEXT,
        int: INTEGERS,
        bool: st.booleans(),
        type(None): st.none(),
        UnsetType: st.just(UNSET),
    }[hint]


def plain(found: Any) -> Any:
    """A record as plain JSON values, made without the encoder under test."""
    if isinstance(found, msgspec.Raw):
        return parse_canonical(bytes(found))
    if isinstance(found, msgspec.Struct):
        pairs = zip(found.__struct_encode_fields__, found.__struct_fields__, strict=True)
        return {encoded: plain(getattr(found, name)) for encoded, name in pairs if getattr(found, name) is not UNSET}
    if isinstance(found, dict):
        return {key: plain(item) for key, item in found.items()}
    if isinstance(found, list | tuple):
        return [plain(item) for item in found]
    return found
