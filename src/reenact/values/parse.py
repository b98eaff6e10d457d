"""Reading JSON strictly: what is accepted is what canonical JSON can say again, and nothing is lost on the way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from json.decoder import scanstring  # type: ignore[attr-defined]  # the stub leaves it out
from math import isfinite
from typing import Any, Final, NoReturn, cast

from reenact.errors import JsonSyntaxError

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON reader holds exactly; its negative is the smallest."""

MAX_DEPTH: Final = 256
"""How many arrays and objects may stand in each other. A fixed number, so that the same value is accepted
on every machine and from every depth of the caller's stack."""

CAREFUL: Final = 1 << 20
"""Longer texts are not read a second time to say what exactly is wrong: that takes a hundred times as long."""
_BRIEFLY: Final = (
    "it is not JSON, or has a key twice, a number out of range, half a character, or is nested deeper than "
    f"{MAX_DEPTH} levels"
)

# Only a text with one of these can hold a number out of range; digits in strings are found too, which costs little.
_LARGE: Final = re.compile(r"\d{16}|[eE]\+?\d{3}")
# Escapes one after the other, so that an escaped backslash is not taken for the start of one; group 1 is half a pair.
_ESCAPES: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F])|.)", re.DOTALL
)
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORDS: Final = {"true": True, "false": False, "null": None}


def parse_json(data: bytes | str, *, what: str = "JSON") -> object:
    """The value that `data` spells, or JsonSyntaxError with line and column; `what` names the text in the message.

    Refused, beyond wrong syntax: duplicate keys, NaN and infinities, numbers out of range, integers beyond
    ±(2^53−1), lone surrogates, a byte order mark, nesting deeper than MAX_DEPTH, and anything after the value.
    """
    return read(data, what, _integer)


Integer = Callable[[str], int | float]


def read(data: bytes | str, what: str, integer: Integer) -> object:
    """`parse_json` with another rule for integers: a function of their text that raises ValueError to refuse one."""
    text = data if isinstance(data, str) else _decode(data, what)
    try:
        return _read_fast(text, integer)
    except (ValueError, RecursionError) as error:
        if len(text) > CAREFUL:
            _fail(text, getattr(error, "pos", 0), _BRIEFLY, what)
        return _Reader(text, what, integer).document()  # which says what is wrong, and where


def _decode(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        _fail(before, len(before), "a byte that is not UTF-8", what)


def _read_fast(text: str, integer: Integer) -> object:
    if not text.isascii() and _SURROGATE.search(text):
        raise ValueError
    if "\\u" in text and any(escape[1] for escape in _ESCAPES.finditer(text)):
        raise ValueError
    value: object = (_guarded(integer) if _LARGE.search(text) else _DECODER).decode(text)
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_too_deep(value):
        raise ValueError
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _no_constant(_name: str) -> NoReturn:
    raise ValueError


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


@cache
def _guarded(integer: Integer) -> json.JSONDecoder:
    hooks: dict[str, Any] = {"object_pairs_hook": _unique, "parse_constant": _no_constant}
    return json.JSONDecoder(**hooks, parse_int=integer, parse_float=_finite)


def _integer(text: str) -> int:
    if len(text) > 17:
        raise ValueError
    value = int(text)
    if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        raise ValueError
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError
    return value


def _is_too_deep(value: object) -> bool:
    level = [value] if type(value) in (dict, list) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else cast("list[object]", container))
            if type(child) in (dict, list)
        ]
    return bool(level)


def _fail(text: str, position: int, problem: str, what: str) -> NoReturn:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    raise JsonSyntaxError(f"{what}: {problem}", line=line, column=column) from None


class _Reader:
    """The careful reader: slower, and knows where it is."""

    def __init__(self, text: str, what: str, integer: Integer = _integer) -> None:
        self.text = text
        self.what = what
        self.integer = integer
        self.at = 0

    def document(self) -> object:
        if self.text.startswith("\ufeff"):
            self.fail("starts with a byte order mark; save it as UTF-8 without one")
        try:
            value = self.value(0)
        except RecursionError:
            self.fail("nested too deeply to be read here")
        if self.peek():
            self.fail("something stands after the end of the value")
        return value

    def fail(self, problem: str, position: int | None = None) -> NoReturn:
        _fail(self.text, self.at if position is None else position, problem, self.what)

    def peek(self) -> str:
        """The next character that is not white space, or an empty string at the end."""
        self.at = cast("re.Match[str]", _SPACE.match(self.text, self.at)).end()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> object:
        first = self.peek()
        if first == '"':
            return self.string()
        if first in ("{", "["):
            if depth >= MAX_DEPTH:
                self.fail(f"nested deeper than {MAX_DEPTH} arrays and objects")
            return self.members(depth) if first == "{" else self.items(depth)
        if first and first in "-0123456789":
            return self.number()
        return self.word()

    def word(self) -> bool | None:
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        return self.fail("a value is expected" if self.at < len(self.text) else "ends where a value is expected")

    def members(self, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        self.at += 1
        if self.peek() == "}":
            self.at += 1
            return found
        while True:
            if self.peek() != '"':
                self.fail("a key in double quotes is expected")
            start = self.at
            key = self.string()
            if key in found:
                self.fail("a key that stands twice in one object", start)
            self.take(":", "a colon is expected after the key")
            found[key] = self.value(depth + 1)
            if self.peek() != ",":
                self.take("}", "a comma or a closing brace is expected")
                return found
            self.at += 1

    def items(self, depth: int) -> list[object]:
        found: list[object] = []
        self.at += 1
        if self.peek() == "]":
            self.at += 1
            return found
        while True:
            found.append(self.value(depth + 1))
            if self.peek() != ",":
                self.take("]", "a comma or a closing bracket is expected")
                return found
            self.at += 1

    def take(self, character: str, problem: str) -> None:
        if self.peek() != character:
            self.fail(problem)
        self.at += 1

    def string(self) -> str:
        start = self.at
        try:
            value, self.at = scanstring(self.text, start + 1, True)  # noqa: FBT003 - takes no keywords
        except json.JSONDecodeError as error:
            if error.pos == start:
                self.fail("a string without its closing quote")
            self.fail("a bad escape or control character in a string", error.pos)
        if _SURROGATE.search(value):
            self.fail("a lone surrogate in a string", start)
        return cast("str", value)

    def number(self) -> int | float:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            self.fail("a digit is expected after the minus sign")
        start, self.at = self.at, match.end()
        whole = match[1] is None and match[2] is None
        try:
            return self.integer(match[0]) if whole else _finite(match[0])
        except ValueError:
            pass
        problem = "an integer beyond ±(2^53−1); write it as a string" if whole else "a number too large for a double"
        return self.fail(problem, start)
