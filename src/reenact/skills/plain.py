"""From what a skill returns to plain JSON values, or an error that says where JSON ends."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import uuid
from typing import Any

import msgspec

from reenact.errors import SkillError

MAX_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 500
_TEXTUAL = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID)


def to_plain(value: object) -> Any:
    """Dictionaries, lists, strings, numbers, booleans and None, and nothing else.

    Structs, dataclasses, TypedDicts, enums and pydantic models become what they stand for. Whatever JSON cannot
    express raises `ERR_SERIALIZATION_FAILED` with a JSON Pointer to it.
    """
    return _plain(value, "", ())


def _plain(value: object, path: str, above: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.value, path, above)
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        return _integer(value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refuse(path, f"{value} is not a JSON number")
        return float(value)
    if isinstance(value, _TEXTUAL):
        return msgspec.to_builtins(value)
    if id(value) in above:
        raise _refuse(path, "the value contains itself")
    if len(above) >= MAX_DEPTH:
        raise _refuse(path, f"nested more than {MAX_DEPTH} levels deep")
    return _container(value, path, (*above, id(value)))


def _container(value: object, path: str, above: tuple[int, ...]) -> Any:
    if isinstance(value, dict):
        return {_key(key, path): _plain(item, f"{path}/{_escape(key)}", above) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}/{index}", above) for index, item in enumerate(value)]
    if isinstance(value, msgspec.Struct):
        return _struct(value, path, above)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shallow = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
        return _container(shallow, path, above)
    dump = getattr(value, "model_dump", None)
    if dump is not None and hasattr(type(value), "__pydantic_validator__"):
        return _container(dump(mode="json", by_alias=True), path, above)
    raise _refuse(path, f"a {type(value).__qualname__} is not a JSON value")


def _struct(value: msgspec.Struct, path: str, above: tuple[int, ...]) -> Any:
    config = value.__struct_config__
    fields = [
        (item.encode_name, item_value)
        for item in msgspec.structs.fields(value)
        if (item_value := getattr(value, item.name)) is not msgspec.UNSET
    ]
    tag = [(config.tag_field or "type", config.tag)] if config.tag is not None else []
    if config.array_like:
        return _container([item for _, item in tag + fields], path, above)
    return _container(dict(tag + fields), path, above)


def _text(value: str, path: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _refuse(path, "the text holds half of a surrogate pair") from None
    return str(value)


def _integer(value: int, path: str) -> int:
    if abs(value) > MAX_SAFE_INTEGER:
        raise _refuse(path, "the integer is beyond 2^53-1; return it as a string")
    return int(value)


def _key(key: object, path: str) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if not isinstance(key, str):
        raise _refuse(path, f"a key is a {type(key).__qualname__}, JSON keys are strings")
    return _text(key, path)


def _escape(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _refuse(path: str, why: str) -> SkillError:
    where = path or "the top level"
    return SkillError.of("ERR_SERIALIZATION_FAILED", f"the result cannot be recorded: {why}, at {where}", path=path)
