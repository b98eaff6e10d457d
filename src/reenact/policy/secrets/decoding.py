"""Decode, then match: the ways in which a secret may be written, and where in a text one stands that is written so.

Two kinds. Escapes (`%3C`, `&lt;`, `=3C`, those of JSON) stand among plain characters: the text is read without them,
and what is found is traced back to where it came from. Base64 and hex are runs of characters: a run is decoded,
wherever in it the secret begins and however its lines are folded, and goes as a whole. What was decoded may be encoded
once more.
"""

from __future__ import annotations

import html
import re
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from urllib.parse import quote, quote_plus

from reenact.policy.secrets.patterns import pause

Span = tuple[int, int]
DEEPEST: Final = 3
"""So many encodings one inside the other are looked through."""
CHARSETS: Final = ("utf-8", "utf-16-le", "utf-16-be")
URL_ALPHABET: Final = str.maketrans("+/", "-_")
STANDARD_ALPHABET: Final = str.maketrans("-_", "+/")
SIMPLE: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "0": "\0"}


class Escape(NamedTuple):
    """One way to escape characters: a text that has it has `mark`, and each match of `pattern` is read by `read`."""

    mark: str
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], str]


def read_backslashes(match: re.Match[str]) -> str:
    if match[1]:
        return read_bytes(match[1].replace("\\u", ""), "utf-16-be")
    if match[2]:
        return read_bytes(match[2].replace("\\x", ""), "utf-8")
    return SIMPLE.get(match[3], match[3])


def read_bytes(digits: str, charset: str) -> str:
    return bytes.fromhex(digits).decode(charset, "replace")


ESCAPES: Final = (
    Escape("\\", re.compile(r"((?:\\u[0-9A-Fa-f]{4})++)|((?:\\x[0-9A-Fa-f]{2})++)|\\([^ux])"), read_backslashes),
    Escape("%", re.compile(r"(?:%[0-9A-Fa-f]{2})++"), lambda match: read_bytes(match[0].replace("%", ""), "utf-8")),
    Escape(
        "&",
        re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});?"),
        lambda match: html.unescape(match[0]),
    ),
    Escape(
        "=",
        re.compile(r"((?:=[0-9A-Fa-f]{2})++)|=\r?\n"),
        lambda match: read_bytes(match[1].replace("=", ""), "utf-8") if match[1] else "",
    ),
    Escape("\0", re.compile(r"\0++"), lambda _: ""),
)
BASE64_RUN: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}+(?:\r?\n[ \t]{0,8}+[A-Za-z0-9+/_-]++)*+")
HEX_RUN: Final = re.compile(r"[0-9A-Fa-f]{2}(?:[: \-]?+\r?+\n?+[ \t]{0,8}+(?:0x|\\x)?+[0-9A-Fa-f]{2}){5,}+")
NO_HEX: Final = re.compile(r"0x|\\x|[^0-9A-Fa-f]")
FOLDS: Final = re.compile(r"\s++")
MARKS: Final = re.compile(
    rb"\\|%[0-9A-Fa-f]{2}|&[#A-Za-z]|=[0-9A-Fa-f]{2}|[A-Za-z0-9+/_]{16}"
    rb"|(?:[0-9A-Fa-f]{2}[: \-]){5}"
)
"""Canonical JSON without any of these holds a secret as it is, or in an encoding of `forms`."""
PATTERNS: Final = (*(escape.pattern for escape in ESCAPES), BASE64_RUN, HEX_RUN, NO_HEX, FOLDS, MARKS)


def forms(text: str) -> Iterator[str]:
    """How a secret looks inside a longer text where it stands in one piece: as it is, in a URL, in hex, in base64."""
    yield text
    for encode in (quote, quote_plus):
        for safe in ("", "/"):
            yield encode(text, safe=safe, errors="surrogatepass")
    for charset in CHARSETS:
        data = text.encode(charset, "surrogatepass")
        yield data.hex()
        yield data.hex().upper()
        yield from base64_forms(data)


def base64_forms(data: bytes) -> Iterator[str]:
    """The characters that stand for the secret alone, wherever it begins in what was encoded."""
    for before in range(3):
        encoded = b64encode(bytes(before) + data).decode()
        core = encoded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        if len(core) >= 6:
            yield core
            yield core.translate(URL_ALPHABET)


class Needles:
    """Known texts, looked for in whatever a text is decoded to."""

    def __init__(self, texts: frozenset[str]) -> None:
        self._texts = tuple(sorted(texts | {text.replace(" ", "+") for text in texts}, key=len, reverse=True))
        self._bytes = tuple(sorted({text.encode(name, "surrogatepass") for text in texts for name in CHARSETS}))
        self._shortest = min((len(data) * 4 // 3 for data in self._bytes), default=0)

    def spans(self, text: str, deep: int = DEEPEST) -> list[Span]:
        """Where one stands in `text` in an encoding; in no order, and one may lie in another."""
        if deep == 0:
            return []
        found = [*self._runs(text, deep)]
        for escape in ESCAPES:
            if escape.mark in text:
                found += self._escaped(text, escape, deep)
        return found

    def _escaped(self, text: str, escape: Escape, deep: int) -> Iterator[Span]:
        pause()
        read = escape.pattern.sub(escape.read, text)
        if read == text:
            return
        inside = [*self._plain(read), *self.spans(read, deep - 1)]
        if inside:
            yield from traced_back(text, escape, inside)

    def _plain(self, text: str) -> Iterator[Span]:
        for known in self._texts:
            at = text.find(known)
            while at >= 0:
                yield at, at + len(known)
                at = text.find(known, at + len(known))

    def _runs(self, text: str, deep: int) -> Iterator[Span]:
        for match in BASE64_RUN.finditer(text):
            if len(match[0]) < self._shortest:
                continue
            pause()
            if any(self._is_in(data, deep) for data in base64_readings(match[0])):
                yield match.span()
        for match in HEX_RUN.finditer(text):
            digits = NO_HEX.sub("", match[0])
            if any(
                self._is_in(bytes.fromhex(digits[odd : odd + (len(digits) - odd) // 2 * 2]), deep) for odd in (0, 1)
            ):
                yield match.span()

    def _is_in(self, data: bytes, deep: int) -> bool:
        if any(known in data for known in self._bytes):
            return True
        if deep == 1:
            return False
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return False
        return bool(self.spans(text, deep - 1))


def base64_readings(run: str) -> Iterator[bytes]:
    """What a run of base64 may say: it may begin at any of four characters, the ones before it being something else."""
    if "\n" in run:
        run = FOLDS.sub("", run)
    run = run.translate(STANDARD_ALPHABET)
    for start in range(4):
        end = start + (len(run) - start) // 4 * 4
        rest = run[end:]
        if end > start or len(rest) > 1:
            yield b64decode(run[start:end] + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else ""))


def traced_back(text: str, escape: Escape, inside: list[Span]) -> Iterator[Span]:
    """Places in the text that was read as places in the text that was written; an escape goes as a whole."""
    read_at, written_at = [0], [(0, 0)]
    shift = 0
    for match in escape.pattern.finditer(text):
        begins = match.start() - shift
        ends = begins + len(escape.read(match))
        shift = match.end() - ends
        read_at += [begins, ends]
        written_at += [(match.start(), match.end()), (match.end(), match.end())]
    for start, end in inside:
        yield place(start, read_at, written_at)[0], place(end - 1, read_at, written_at)[1]


def place(at: int, read_at: list[int], written_at: list[Span]) -> Span:
    """(begin, end) in the written text of one character of the read one."""
    index = bisect_right(read_at, at) - 1
    written = written_at[index]
    if written[0] == written[1]:
        offset = written[0] + at - read_at[index]
        return offset, offset + 1
    return written
