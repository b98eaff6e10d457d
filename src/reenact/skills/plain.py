"""From the values of a program to plain JSON values, or an error that says where JSON ends."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import os
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from reenact.errors import SkillError
from reenact.skills import plain_models
from reenact.values.canonical import MAX_DEPTH, MAX_SAFE_INTEGER, in_order, number_as_recorded
from reenact.values.envelope import LARGEST_RESULT

_SCALARS = frozenset({str, int, float, bool, type(None)})
_TEXTUAL = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID)

_BYTES = "bytes are not JSON (make them a text: base64.b64encode(…).decode())"
_SET = "a set has no order (make it a list: sorted(…))"
_NO_JSON: dict[type, str] = {bytes: _BYTES, bytearray: _BYTES, memoryview: _BYTES, set: _SET, frozenset: _SET}

_encode = msgspec.json.Encoder().encode


class _Refused(Exception):
    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.tokens: list[str] = []


def to_plain(value: object, what: str = "the result") -> Any:
    """Dictionaries, lists, strings, numbers, booleans and None, and nothing else.

    Structs, dataclasses, TypedDicts, enums and pydantic models become what they stand for, dates and paths texts, and
    all is as a record gives it back: 2.0 is 2, and the members of an object stand in the record's order. Whatever JSON
    cannot express raises `ERR_SERIALIZATION_FAILED` with a JSON Pointer to it. The whole table:
    docs/reference/python_api.md.
    """
    try:
        return _bounded(_plain(value, []))
    except _Refused as refused:
        tokens = (token.replace("~", "~0").replace("/", "~1") for token in reversed(refused.tokens))
        path = "".join(f"/{token}" for token in tokens)
        raise SkillError.of(
            "ERR_SERIALIZATION_FAILED",
            f"{what} cannot be recorded: {refused}, at {path or 'the top level'}",
            path=path,
        ) from None


def _bounded(plain: object) -> object:
    if len(_encode(plain)) > LARGEST_RESULT:
        raise _Refused(f"it has more than {LARGEST_RESULT} bytes as JSON")
    return plain


def _plain(value: object, above: list[int]) -> Any:
    """One frame per level: the depth that canonical JSON allows fits the interpreter's stack."""
    kind = type(value)
    if kind in _SCALARS or (kind is not dict and kind is not list and not _is_container(value)):
        return _scalar(value)
    if kind is not dict and kind is not list and _is_model(value):
        return _model(value, above)
    if id(value) in above:
        raise _Refused("the value contains itself")
    if len(above) >= MAX_DEPTH:
        raise _Refused(f"it is nested more than {MAX_DEPTH} levels deep")
    above.append(id(value))
    members = _members(value)
    named = isinstance(members, dict)
    items: Any = members.items() if isinstance(members, dict) else enumerate(members)
    result: dict[Any, Any] = {}
    for token, item in items:
        kind = type(item)
        if (kind is str and item.isascii()) or (kind is int and -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER):
            result[token] = item
            continue
        try:
            result[token] = _scalar(item) if kind in _SCALARS else _plain(item, above)
        except _Refused as refused:
            refused.tokens.append(str(token))
            raise
    above.pop()
    if not named:
        return list(result.values())
    names = in_order(result)
    return result if names == list(result) else {name: result[name] for name in names}


def _is_container(value: object) -> bool:
    if isinstance(value, dict | list | tuple | msgspec.Struct | Mapping) or _is_model(value):
        return True
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _is_model(value: object) -> bool:
    return hasattr(type(value), "__pydantic_validator__") and hasattr(value, "model_dump")


def _model(value: object, above: list[int]) -> Any:
    """A model of one value alone, without fields, is that value."""
    try:
        dumped = plain_models.written(value)
    except plain_models.Unwritable as unwritable:
        refused = _Refused(str(unwritable))
        refused.tokens = unwritable.tokens
        raise refused from None
    return _plain(dumped, above)


def _members(value: Any) -> dict[str, Any] | list[Any]:
    if isinstance(value, Mapping):
        if type(value) is dict and all(map(_is_plain_key, value)):
            return value
        return {_key(key): item for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, msgspec.Struct):
        return _struct(value)
    return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}


def _struct(value: msgspec.Struct) -> dict[str, Any] | list[Any]:
    config = value.__struct_config__
    tag = [(config.tag_field or "type", config.tag)] if config.tag is not None else []
    fields = [
        (item.encode_name, item_value)
        for item in msgspec.structs.fields(value)
        if (item_value := getattr(value, item.name)) is not msgspec.UNSET
    ]
    return [item for _, item in tag + fields] if config.array_like else dict(tag + fields)


def _scalar(value: object) -> Any:
    if type(value) is str and value.isascii():
        return value
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, _TEXTUAL):
        return msgspec.to_builtins(value)
    if isinstance(value, os.PathLike):
        return _scalar(os.fspath(value))
    raise _Refused(_NO_JSON.get(type(value), f"a {type(value).__qualname__} is not a JSON value"))


def _number(value: float) -> int | float:
    if isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            raise _Refused("an integer is beyond 2^53-1 (return it as a string)")
        return int(value)
    if not math.isfinite(value):
        raise _Refused(f"{value} is not a JSON number")
    return number_as_recorded(float(value))


def _text(value: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _Refused("a text holds half of a surrogate pair") from None
    return str.__str__(value)


def _is_plain_key(key: object) -> bool:
    return type(key) is str and key.isascii()


def _key(key: object) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if type(key) is str and key.isascii():
        return key
    if not isinstance(key, str):
        raise _Refused(f"a key is a {type(key).__qualname__}, JSON keys are strings")
    return _text(key)
