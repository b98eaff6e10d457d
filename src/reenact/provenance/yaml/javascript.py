"""JavaScript's view of JSON values: how it prints numbers and strings, orders keys, and parses JSON.

Replay hashes and sidecars are defined by what JavaScript writes, and that is not RFC 8785: keys that look
like array indices come first, lone surrogates are escaped, infinities become null.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Final, NoReturn

JsonScalar = bool | float | str | None
Json = JsonScalar | list["Json"] | dict[str, "Json"]

MAX_JSON_DEPTH: Final = 100
_TOO_DEEP: Final = f"not JSON that is read: nested more than {MAX_JSON_DEPTH} levels deep"
_MAX_ARRAY_INDEX: Final = 4294967294
_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_ESCAPED = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')
_SHORT_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def number_text(value: float) -> str:
    """What `String(value)` gives in JavaScript: the shortest digits that read back as the same double."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(float(value))).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    return sign + _place_point(digits, point)


def _place_point(digits: str, point: int) -> str:
    """ECMA-262 Number::toString, steps 6 to 10; the value is 0.`digits` times 10 to the power of `point`."""
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    rest = f".{digits[1:]}" if count > 1 else ""
    return f"{digits[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def quote(text: str) -> str:
    """What `JSON.stringify` gives for a string."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    return _SHORT_ESCAPES.get(char) or f"\\u{ord(char):04x}"


def join_surrogates(text: str) -> str:
    """The text with each pair of surrogates as the one character that it stands for; lone ones stay."""
    if text.isascii() or not re.search("[\ud800-\udfff]", text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def is_array_index(key: str) -> bool:
    return _ARRAY_INDEX.fullmatch(key) is not None and int(key) <= _MAX_ARRAY_INDEX


def sorted_keys(keys: Iterable[str]) -> list[str]:
    """The order in which an object prints whose keys were inserted sorted: array indices by number, then the
    rest by UTF-16 code unit."""
    indices: list[str] = []
    names: list[str] = []
    for key in keys:
        (indices if is_array_index(key) else names).append(key)
    indices.sort(key=int)
    names.sort(key=_code_units)
    return indices + names


def _code_units(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def inserted_keys(keys: Iterable[str]) -> list[str]:
    """The order in which an object prints whose keys were inserted as given: array indices come first."""
    given = list(keys)
    indices = sorted((key for key in given if is_array_index(key)), key=int)
    return indices + [key for key in given if not is_array_index(key)]


def scalar_text(value: JsonScalar) -> str:
    """What `JSON.stringify` gives for a value that holds no other."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    return number_text(value) if math.isfinite(value) else "null"


def pretty(value: object, depth: int = 0) -> str:
    """What `JSON.stringify(value, null, 2)` gives; mappings print in the order of their keys as given."""
    if isinstance(value, dict):
        items = [f"{quote(key)}: {pretty(value[key], depth + 1)}" for key in inserted_keys(value)]
        brackets = "{}"
    elif isinstance(value, list | tuple):
        items = [pretty(item, depth + 1) for item in value]
        brackets = "[]"
    else:
        assert value is None or isinstance(value, bool | int | float | str)
        return scalar_text(value)
    if not items:
        return brackets
    pad = "\n" + "  " * (depth + 1)
    return brackets[0] + pad + ("," + pad).join(items) + "\n" + "  " * depth + brackets[1]


class JsonSyntaxError(ValueError):
    """Not JSON. The message names a line and a column and holds none of the text."""


def parse_json(text: str) -> Json:
    """`JSON.parse`: the last of equal keys wins, numbers are doubles; a byte order mark, NaN and comments are
    refused."""
    try:
        value: Json = json.loads(text, parse_int=float, parse_float=float, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise JsonSyntaxError(f"not JSON: line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise JsonSyntaxError(_TOO_DEEP) from None
    if _depth(value) > MAX_JSON_DEPTH:
        raise JsonSyntaxError(_TOO_DEEP)
    return value


def _depth(value: Json) -> int:
    """How many arrays and objects stand in each other, counted no further than is needed to refuse."""
    depth = 0
    level: list[Json] = [value]
    while level and depth <= MAX_JSON_DEPTH:
        inner = [item for item in level if isinstance(item, list | dict)]
        depth += bool(inner)
        level = [child for item in inner for child in (item.values() if isinstance(item, dict) else item)]
    return depth


def _refuse_constant(name: str) -> NoReturn:
    raise JsonSyntaxError(f"not JSON: {name} is no JSON number")
