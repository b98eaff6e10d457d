"""The JSON shape of a msgspec struct class: its members and their names, derived once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from reenact.errors import CanonicalizationError


class Shape(NamedTuple):
    """A struct class, as canonical JSON sees it."""

    names: tuple[str, ...]  # as encoded, in the order of the fields
    tag: tuple[str, str | int] | None
    array_like: bool
    defaults: tuple[Any, ...]  # aligned with names, NODEFAULT where none; only filled for omit_defaults
    same_as_encoder: bool  # msgspec's C encoder writes the members that members_of() names, in canonical order


class _Probe(msgspec.Struct):
    items: list[int] = []


# msgspec wraps mutable defaults; the wrapper's class has no public name.
_Factory: Any = type(_Probe.__struct_defaults__[0])

_shapes: dict[type, Shape] = {}


def shape_of(cls: type[msgspec.Struct]) -> Shape:
    shape = _shapes.get(cls)
    if shape is None:
        shape = _shapes[cls] = _analyse(cls)
    return shape


def members_of(value: msgspec.Struct, canonical: Callable[[object], bytes]) -> dict[str, object]:
    """The members that `value` has as a JSON object: tag, then fields that are set and not left out as defaults.

    With `omit_defaults`, a field is left out when its canonical form is that of its default. (msgspec compares
    by identity, so that equal strings may or may not be left out; canonical bytes must depend on the value alone.)
    """
    shape = shape_of(type(value))
    fields = zip(shape.names, msgspec.structs.astuple(value), strict=True)
    members = {name: item for name, item in fields if item is not UNSET}
    if shape.tag:
        members[shape.tag[0]] = shape.tag[1]
    for name, default in zip(shape.names, shape.defaults, strict=False):
        if name in members and _is_default(members[name], default, canonical):
            del members[name]
    return members


def _analyse(cls: type[msgspec.Struct]) -> Shape:
    config = cls.__struct_config__
    names = cls.__struct_encode_fields__
    tag = (config.tag_field or "", config.tag) if config.tag is not None else None
    defaults: tuple[Any, ...] = ()
    if config.omit_defaults:
        given = cls.__struct_defaults__
        defaults = (msgspec.NODEFAULT,) * (len(names) - len(given)) + given
    same = not config.array_like and "".join(names).isascii() and all(map(_told_by_identity, defaults))
    if tag is not None:
        # msgspec writes the name of the tag's field without escapes
        plain = tag[0].isascii() and tag[0].isprintable() and not set(tag[0]) & set('"\\')
        same = same and plain and isinstance(tag[1], str)
    return Shape(names, tag, config.array_like, defaults, same)


def _told_by_identity(default: object) -> bool:
    """True where msgspec's identity test for defaults says the same as an equality test."""
    singletons = (None, True, False, UNSET, msgspec.NODEFAULT)
    return any(default is single for single in singletons) or type(default) is _Factory


def _is_default(item: object, default: Any, canonical: Callable[[object], bytes]) -> bool:
    if item is default:
        return True
    if type(default) is _Factory:
        return type(item) is default.factory and not item
    if default is msgspec.NODEFAULT or default is UNSET:
        return False
    try:
        return canonical(item) == canonical(default)
    except CanonicalizationError:
        return False  # then it is written, and refused with its path
