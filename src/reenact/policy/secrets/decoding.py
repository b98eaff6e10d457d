"""Decode, then match: the ways in which a secret may be written, and where in a text one stands that is written so.

Two kinds. Escapes (`%3C`, `&lt;`, `=3C`, `\\163`, those of JSON, the folds of lines) stand among plain characters: the
text is read without them, and what is found is traced back to where it came from. Base64, base32, hex and lists of
bytes or characters are runs (`runs.py`): a run is decoded, wherever in it the secret begins, and goes as a whole. What
was decoded may be encoded once more.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from reenact.policy.secrets.patterns import pause
from reenact.policy.secrets.runs import (
    BASE64_RUN,
    HEX_RUN,
    NUMBERS_RUN,
    QUOTED_RUN,
    byte_needles,
    cased,
    hex_readings,
    number_readings,
    numbered,
    quoted_readings,
    spellings,
    unpacked,
    word_readings,
)

Span = tuple[int, int]
SHORTEST: Final = 6
DEEPEST: Final = 3
"""So many encodings one inside the other are looked through."""
MOST_UNPACKED: Final = 16 << 20
"""Bytes that all that is compressed in one text may unpack to; what comes behind them counts as a secret."""
DEEP_UNPACKED: Final = 1 << 16
"""Of so much that was unpacked the encodings are looked through as well."""
SIMPLE: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
LONGEST_NUMBER: Final = 6
"""Of a byte as it may be written: `0x7f`, `0o177`."""
READABLE: Final = re.compile(rb"[\t\n\r -~]{12,}+")
LARGEST_CHARACTER: Final = 0x10FFFF


class Escape(NamedTuple):
    """One way to escape characters: a text that has it has `mark`, and each match of `pattern` is read by `read`."""

    mark: str
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], str]


def read_backslashes(match: re.Match[str]) -> str:
    found, kind = match[0], match[0][1]
    if kind in "uUx" and found[2:3] == "{":
        return "".join(character(digits) for digits in found.replace("}", "").split(found[:3])[1:])
    if kind == "u" and len(found) > 2:
        return bytes.fromhex(found.replace("\\u", "")).decode("utf-16-be", "replace")
    if kind == "U" and len(found) > 2:
        return character(found[2:])
    if kind == "x" and len(found) > 2:
        return read_bytes(bytes.fromhex(found.replace("\\x", "")))
    if kind in "01234567" and len(found) > 2:
        return read_bytes(bytes(int(digits, 8) for digits in found.split("\\")[1:]))
    return SIMPLE.get(kind, kind)


def read_percent(match: re.Match[str]) -> str:
    if match[0][1] in "uU":
        return bytes.fromhex(match[0].replace("%u", "").replace("%U", "")).decode("utf-16-be", "replace")
    return read_bytes(bytes.fromhex(match[0].replace("%", "")))


def read_equals(match: re.Match[str]) -> str:
    return "" if match[0][1] in "\r\n" else read_bytes(bytes.fromhex(match[0].replace("=", "")))


def read_bytes(data: bytes) -> str:
    """Bytes are of UTF-8; where they are not, each is a character, as older programs write them."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def character(digits: str) -> str:
    number = int(digits, 16)
    return chr(number) if number <= LARGEST_CHARACTER and not 0xD800 <= number < 0xE000 else "\ufffd"


def nothing(_: re.Match[str]) -> str:
    return ""


MARGIN: Final = r"[ \t>|*#]{0,200}+"
ESCAPES: Final = (
    Escape(
        "\\",
        re.compile(
            r"\\(?:u[0-9A-Fa-f]{4}(?:\\u[0-9A-Fa-f]{4})*+|x[0-9A-Fa-f]{2}(?:\\x[0-9A-Fa-f]{2})*+"
            r"|0?[0-3]?[0-7]{1,2}(?:\\0?[0-3]?[0-7]{1,2})*+|u\{[0-9A-Fa-f]{1,6}\}(?:\\u\{[0-9A-Fa-f]{1,6}\})*+"
            r"|x\{[0-9A-Fa-f]{1,6}\}(?:\\x\{[0-9A-Fa-f]{1,6}\})*+|U[0-9A-Fa-f]{8}|[^ux])"
        ),
        read_backslashes,
    ),
    Escape(
        "%",
        re.compile(r"%(?:[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*+|[uU][0-9A-Fa-f]{4}(?:%[uU][0-9A-Fa-f]{4})*+)"),
        read_percent,
    ),
    Escape(
        "&",
        re.compile(r"&(?:#[0-9]{1,10}|#[xX][0-9A-Fa-f]{1,8}|[A-Za-z]{2,8});?"),
        lambda match: html.unescape(match[0]),
    ),
    Escape("=", re.compile(r"=(?:[0-9A-Fa-f]{2}(?:=[0-9A-Fa-f]{2})*+|\r?\n)"), read_equals),
    Escape("\0", re.compile(r"\0\0*+"), nothing),
    Escape("\n", re.compile(rf"\n{MARGIN}|\r\n{MARGIN}|=\r?\n{MARGIN}"), nothing),
    Escape("\r", re.compile(rf"\r{MARGIN}"), nothing),
)
FOLD: Final = Escape(
    "", re.compile(r"[\"',+\s](?<=[A-Za-z0-9+/_=-]{16}.)[\"',+\s]{0,99}+(?=[A-Za-z0-9+/_-])", re.DOTALL), nothing
)
"""Between two words of which the first is a long one: base64 and its like, folded by anything, or a list of lines."""
MARGINS: Final = Escape("", re.compile(r"[\s>|*#=]++"), nothing)
"""Whatever may be a margin, wherever it stands: a fold beside a space or a `>` of the secret's own takes that too."""
READERS: Final = {"\r": nothing, **{escape.mark: escape.read for escape in ESCAPES}}
ANY: Final = re.compile("|".join(escape.pattern.pattern for escape in ESCAPES))
ALL_AT_ONCE: Final = Escape("", ANY, lambda match: READERS[match[0][0]](match))
ODD: Final = re.compile(
    rb"[%&=:,; \-](?:(?<=[%=])[0-9A-Fa-f]{2}|(?<=&)[#A-Za-z]|(?<=%)[uU]"
    rb"|(?<=[0-9A-Fa-f]{5}[:,; \-])[:,; \-]?+[0-9A-Fa-f]{5}| ?+(?:[0-9A-FOXa-fox]{1,5}+[:,; \-]{1,2}+){4}"
    rb"|(?<=,)(?:\"[0-9]{1,6}+\":-?+[0-9]{1,3}+,){4}|(?<=,)(?:\"[^\"\\]{1,6}+\",){4}"
    rb"|(?<=[,; ])(?:'[^'\\]{1,4}+'[,; ]{1,17}+){4})"
)
"""An escape, hex with something between its digits, a list of numbers or of single characters: in canonical JSON."""
WORDS: Final = bytes(
    ord("a") if chr(each).isascii() and (chr(each).isalnum() or chr(each) in "+/_") else 32 for each in range(256)
)
LONG_WORD: Final = b"a" * 16
"""What base64, base32 and hex look like in bytes that were translated by WORDS."""
PATTERNS: Final = (*(escape.pattern for escape in ESCAPES), FOLD.pattern, MARGINS.pattern, ANY, ODD, READABLE)


def is_marked(content: bytes) -> bool:
    """Whether canonical JSON may hold a secret otherwise than as it is, or in one of its `forms`."""
    return b"\\" in content or LONG_WORD in content.translate(WORDS) or ODD.search(content) is not None


class Needles:
    """Known texts, looked for in whatever a text is decoded to."""

    def __init__(self, texts: frozenset[str]) -> None:
        written = {spelling for text in texts for spelling in spellings(text)}
        written.update(*map(cased, texts))
        self._texts = tuple(sorted(written | {text.replace(" ", "+") for text in written}, key=len, reverse=True))
        """As they are: in a text, and in one that a single kind of escape was taken out of."""
        read = {read for text in self._texts for read in readings(text)}
        self._read = tuple(sorted(read.difference(self._texts)))
        """As they look in a text that all escapes were taken out of."""
        bare = {bare for text in self._texts if (bare := MARGINS.pattern.sub("", text)) != text}
        self._bare = tuple(sorted(text for text in bare if len(text) >= SHORTEST))
        """Without what folding may have taken of them."""
        self._bytes = tuple(sorted({data for text in texts for data in byte_needles(text)}))
        self._shortest = min(map(len, self._bytes), default=0)

    def spans(self, text: str) -> list[Span]:
        """Where one stands in `text`; in no order, and one may lie in another."""
        return [*self.plain(text), *Search(self).spans(text, DEEPEST)]

    def plain(self, text: str, *, read: bool = False) -> Iterator[Span]:
        for known in (*self._texts, *self._read) if read else self._texts:
            if known in text:
                for at in places_of(known, text):
                    yield at, at + len(known)

    def folded(self, text: str) -> Iterator[Span]:
        """Where one stands that has what looks like a margin in it, in a text of several lines."""
        if self._bare and ("\n" in text or "\r" in text):
            pause()
            read = MARGINS.pattern.sub("", text)
            found = (known for known in self._bare if known in read)
            inside = [(at, at + len(known)) for known in found for at in places_of(known, read)]
            if inside:
                yield from traced_back(text, MARGINS, inside)

    def is_in(self, data: bytes) -> bool:
        """Whether one stands in bytes as it is, or in UTF-16."""
        if len(data) < self._shortest:
            return False
        if any(known in data for known in self._bytes):
            return True
        bare = data.replace(b"\0", b"") if b"\0" in data else data
        return bare is not data and any(known in bare for known in self._bytes)

    def are_spelt(self, items: list[object] | tuple[object, ...]) -> bool:
        """Whether a list says one byte by byte, character by character, or line by line of base64 and its like."""
        if len(items) < 2 or (len(items) < self._shortest and not (type(items[0]) is str and len(items[0]) > 1)):
            return False
        first = items[0]
        try:
            if type(first) is int:
                return self.is_in(numbered(items))  # type: ignore[arg-type]  # what cannot be said so raises
            if type(first) is not str:
                return False
            if len(first) == 1:
                return self.is_in("".join(items).encode())  # type: ignore[arg-type]
            between = " " if len(first) <= LONGEST_NUMBER else ""
            return any(True for _ in Search(self).runs(between.join(items), 1))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False

    @property
    def shortest(self) -> int:
        return self._shortest


class Search:
    """One search through a text: what was seen in it is not looked at again."""

    def __init__(self, needles: Needles) -> None:
        self._needles = needles
        self._runs_seen: dict[tuple[re.Pattern[str], str, int], bool] = {}
        self._left = MOST_UNPACKED

    def spans(self, text: str, deep: int, only: Escape | None = None) -> Iterator[Span]:
        """With `only`, what was written by one kind of escape and then, maybe, by the same one again."""
        yield from self._needles.folded(text)
        yield from self.runs(text, deep)
        if only is not None:
            yield from self._escaped(text, only, deep, only)
            return
        yield from self._escaped(text, FOLD, deep, FOLD)
        present = [escape for escape in ESCAPES if escape.mark in text]
        if len(present) > 1 and present[-1].mark == "\r" and "\n" in text:
            present.pop()
        if len(present) == 1:
            yield from self._escaped(text, present[0], deep, None)
        elif present:
            for escape in (*present, ALL_AT_ONCE):
                yield from self._escaped(text, escape, deep, escape)

    def _escaped(self, text: str, escape: Escape, deep: int, then: Escape | None) -> Iterator[Span]:
        pause()
        read = escape.pattern.sub(escape.read, text) if escape.mark in text else text
        if read == text:
            return
        inside = [*self._needles.plain(read, read=escape is ALL_AT_ONCE)]
        if deep > 1:
            inside += self.spans(read, deep - 1, then)
        if inside:
            yield from traced_back(text, escape, inside)

    def runs(self, text: str, deep: int) -> Iterator[Span]:
        shortest = self._needles.shortest
        for pattern, readings_of, longer in (
            (BASE64_RUN, word_readings, 4 / 3),
            (HEX_RUN, hex_readings, 2),
            (NUMBERS_RUN, number_readings, 2),
            (QUOTED_RUN, quoted_readings, 2),
        ):
            for match in pattern.finditer(text):
                run = match[0]
                if len(run) < shortest * longer:
                    continue
                known = self._runs_seen.get((pattern, run, deep))
                if known is None:
                    pause()
                    known = any(self._is_in(data, deep) for data in readings_of(run, shortest))
                    self._runs_seen[pattern, run, deep] = known
                if known:
                    yield match.span()

    def _is_in(self, data: bytes, deep: int) -> bool:
        if self._needles.is_in(data):
            return True
        packed = unpacked(data)
        if packed:
            self._left -= len(packed)
            if self._left < 0 or self._needles.is_in(packed):
                return True
            data = packed[:DEEP_UNPACKED]
        if deep == 1:
            return False
        try:
            texts = [data.decode()]
        except UnicodeDecodeError:  # what stood around it was decoded with it
            texts = [found.decode() for found in READABLE.findall(data)]
        return any(True for text in texts for _ in self.spans(text, deep - 1))


def places_of(known: str, text: str) -> Iterator[int]:
    at = text.find(known)
    while at >= 0:
        yield at
        at = text.find(known, at + len(known))


def readings(text: str) -> Iterator[str]:
    """A text as it is read without its escapes, again and again."""
    for _ in range(DEEPEST):
        read = ANY.sub(ALL_AT_ONCE.read, text)
        if read == text or len(read) < SHORTEST:
            return
        yield read
        text = read


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
