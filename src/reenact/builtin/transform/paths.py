"""Paths into JSON values, and the limits within which values are worked on."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from reenact.errors import SkillError

MAX_BYTES = 10_000_000
MAX_DEPTH = 100
_MISSING: Any = object()
_NOWHERE: Any = object()
_DOTTED = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d+)\]")


def read_path(path: str) -> list[str | int]:
    """The steps of `a.b[0]` or `/a/b/0`. The empty path and `/`-less texts follow the dotted form."""
    if path in {"", "$", "."}:
        return []
    if path.startswith("/"):
        return [_unescape(token) for token in path[1:].split("/")]
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        match = _DOTTED.match(path, position)
        if match is None:
            raise SkillError.of("ERR_JSON_PATH_INVALID", "path: write it as a.b[0] or as /a/b/0")
        steps.append(match[1] if match[1] is not None else int(match[2][:9]))
        position = match.end()
    return steps


def _unescape(token: str) -> str:
    if re.search(r"~(?![01])", token):
        raise SkillError.of("ERR_JSON_PATH_INVALID", "path: in a JSON Pointer, ~ is followed by 0 or 1")
    return token.replace("~1", "/").replace("~0", "~")


def follow(value: Any, path: str, default: Any = _MISSING) -> Any:
    """The value at the path; the default, or `ERR_JSON_PATH_NOT_FOUND`, where the path leads nowhere."""
    for step in read_path(path):
        value = _step(value, step)
        if value is _MISSING:
            if default is not _MISSING:
                return default
            raise SkillError.of("ERR_JSON_PATH_NOT_FOUND", "path: it leads nowhere in this value", path=path)
    return value


def has(value: Any, path: str) -> bool:
    """Whether the path leads somewhere, be it to null."""
    return follow(value, path, _NOWHERE) is not _NOWHERE


def _step(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(str(step), _MISSING)
    if isinstance(value, list):
        index = step if isinstance(step, int) else _index(step)
        return value[index] if index is not None and index < len(value) else _MISSING
    return _MISSING


def _index(text: str) -> int | None:
    return int(text) if re.fullmatch(r"0|[1-9][0-9]{0,8}", text, re.ASCII) else None


def check_limits(value: Any) -> None:
    """Refuses what is nested deeper than 100 levels or longer than 10 MB as JSON."""
    if _deeper_than(value, MAX_DEPTH):
        raise SkillError.of("ERR_JSON_DEPTH_EXCEEDED", f"the value is nested deeper than {MAX_DEPTH} levels")
    if len(msgspec.json.encode(value)) > MAX_BYTES:
        raise SkillError.of("ERR_JSON_SIZE_EXCEEDED", f"the value is larger than {MAX_BYTES} bytes as JSON")


def _deeper_than(value: Any, limit: int) -> bool:
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not level:
            return False
        members = (child for item in level for child in (item.values() if isinstance(item, dict) else item))
        level = [child for child in members if isinstance(child, dict | list)]
    return bool(level)
