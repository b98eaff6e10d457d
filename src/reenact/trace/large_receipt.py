"""A receipt too large to be held: its calls are read one after the other, each time that they are asked for."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

from reenact.errors import JsonSyntaxError, ReceiptError
from reenact.trace.hashing import wide_integer
from reenact.values.bounds import LARGEST_FILE
from reenact.values.parse import read

_CHUNK: Final = 1 << 20
_SPACE: Final = " \t\n\r"
_EXTENT: Final = json.JSONDecoder()
"""Says only where a value ends; what is in it is read as strictly as everything else."""

CALLS: Final = "tool_calls"


def members(path: str | Path) -> Iterator[tuple[str, object]]:
    """The members of a receipt in the order of the file, `tool_calls` once for each call; ReceiptError for no JSON."""
    with Path(path).open("rb") as file:
        yield from Scan(file, str(path)).members()


class Scan:
    """A JSON object, read member by member; no more than the value at hand is in memory."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._text = ""
        self._at = 0
        self._before = 0  # characters that were dropped again
        self._is_whole = False

    def members(self) -> Iterator[tuple[str, object]]:
        self._take("{")
        names: set[str] = set()
        held = 0
        while self._peek() != "}" or names:
            name = self._value()
            if not isinstance(name, str) or name in names:
                self._fail("a key that is no text, or stands twice")
            names.add(name)
            self._take(":")
            if name == CALLS:
                for item in self._items():
                    yield name, item
            else:
                start = self._before + self._at
                yield name, self._value()
                held += self._before + self._at - start
            if held > LARGEST_FILE:
                self._fail(f"more than {LARGEST_FILE} characters beside the calls")
            if self._peek() != ",":
                break
            self._at += 1
        self._take("}")
        if CALLS not in names:
            self._fail(f"`{CALLS}` is missing")
        if self._peek():
            self._fail("something stands after the end of the receipt")

    def _items(self) -> Iterator[object]:
        self._take("[")
        if self._peek() != "]":
            yield self._value()
            while self._peek() == ",":
                self._at += 1
                yield self._value()
        self._take("]")

    def _value(self) -> object:
        self._peek()
        while True:
            try:
                _, end = _EXTENT.raw_decode(self._text, self._at)
            except RecursionError:
                self._fail("nested too deeply")
            except ValueError:
                end = len(self._text)
                if self._is_whole:
                    break  # read below, which says what is wrong
            if end < len(self._text) or self._is_whole:
                break
            self._more()
        text, self._at = self._text[self._at : end], end
        try:
            return read(text, f"{self._name}, from character {self._before + end - len(text) + 1}", wide_integer)
        except JsonSyntaxError as error:
            raise ReceiptError(str(error)) from None

    def _peek(self) -> str:
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text) or self._is_whole:
                return self._text[self._at : self._at + 1]
            self._more()

    def _take(self, character: str) -> None:
        if self._peek() != character:
            self._fail(f"{character} is expected")
        self._at += 1

    def _more(self) -> None:
        rest = len(self._text) - self._at
        if rest > LARGEST_FILE:
            self._fail(f"a value of more than {LARGEST_FILE} characters")
        data = self._file.read(max(_CHUNK, rest))
        self._is_whole = not data
        self._before += self._at
        try:
            self._text = self._text[self._at :] + self._decode(data, self._is_whole)
        except UnicodeDecodeError:
            self._fail("a byte that is not UTF-8")
        self._at = 0

    def _fail(self, problem: str) -> NoReturn:
        raise ReceiptError(f"{self._name}, at character {self._before + self._at + 1}: {problem}")
