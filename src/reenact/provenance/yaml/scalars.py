"""Reading YAML scalars: where each style ends, and its text after folding, chomping and escapes."""

from __future__ import annotations

import re
from typing import Final

from reenact.provenance.yaml.cursor import Cursor
from reenact.provenance.yaml.javascript import join_surrogates

_DOUBLE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SINGLE = re.compile(r"'[^']*+(?:''[^']*+)*+'")
_FOLD = re.compile(r"(?<![ \t])[ \t]*+\n[ \t\n]*+")
_DOUBLE_PART = re.compile(r"[ \t]*+\n[ \t\n]*+|\\(?:\n[ \t]*+|.)|[ \t]++|[^\\\n \t]++", re.DOTALL)
_BLANKS = re.compile(r"[ \t]*+")
_SPACES = re.compile(r" *+")
_BLANK_LINES = re.compile(r"(?:[ \t]*+\n)++")
_HEADER = re.compile(r"[|>]([^ \t\n]*+)")

# One line of a plain scalar. White space inside belongs to it only when the scalar goes on behind it.
_PLAIN_LINE = re.compile(
    r"(?:[^:#\n \t]++|:(?=[^ \t\n])|(?<=[^ \t\n])#|[ \t]++(?=[^ \t\n#:]|:[^ \t\n]))*+",
)
_PLAIN_FLOW_LINE = re.compile(
    r"(?:[^:#\n \t,\[\]{}]++|:(?=[^ \t\n,\[\]{}])|(?<=[^ \t\n])#"
    r"|[ \t]++(?=[^ \t\n#:,\[\]{}]|:[^ \t\n,\[\]{}]))*+",
)

_ESCAPES: Final = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "\t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_CODE_LENGTHS: Final = {"x": 2, "u": 4, "U": 8}
_HEX = re.compile(r"[0-9A-Fa-f]+")


def quoted(cursor: Cursor, indent: int) -> str:
    """The text of the quoted scalar that starts here. Its further lines stand deeper than `indent`."""
    start = cursor.position
    double = cursor.char() == '"'
    match = (_DOUBLE if double else _SINGLE).match(cursor.text, start)
    if not match:
        cursor.fail("a quoted scalar is not closed")
    body = match.group()[1:-1]
    if "\n" in body:
        _check_further_lines(cursor, start, match.end(), indent)
    cursor.move_to(match.end())
    if double:
        return _double_text(cursor, start, body)
    return _FOLD.sub(_folded, body).replace("''", "'")


def _check_further_lines(cursor: Cursor, start: int, end: int, indent: int) -> None:
    line = cursor.text.find("\n", start, end) + 1
    while line:
        spaces = _SPACES.match(cursor.text, line)
        assert spaces
        if cursor.text[spaces.end()] != "\n":
            if spaces.end() - line <= indent:
                cursor.fail("a line of a quoted scalar is not indented deeply enough", line)
            if cursor.marker_at(line):
                cursor.fail("a document marker stands inside a quoted scalar", line)
        line = cursor.text.find("\n", line, end) + 1


def _folded(match: re.Match[str]) -> str:
    """What a line break with the white space around it stands for: a space, or all line breaks but the first."""
    return "\n" * (match.group().count("\n") - 1) or " "


def _double_text(cursor: Cursor, start: int, body: str) -> str:
    if "\\" not in body:
        return _FOLD.sub(_folded, body)
    parts: list[str] = []
    place = 0
    while place < len(body):
        match = _DOUBLE_PART.match(body, place)
        assert match
        part, place = match.group(), match.end()
        if part[0] != "\\":
            parts.append(_folded(match) if "\n" in part else part)
        elif part[1] in _CODE_LENGTHS:
            length = _CODE_LENGTHS[part[1]]
            digits = body[place : place + length]
            if len(digits) < length or not _HEX.fullmatch(digits) or int(digits, 16) > 0x10FFFF:
                cursor.fail("an escape sequence names no character", start + place)
            parts.append(chr(int(digits, 16)))
            place += length
        elif part[1] in _ESCAPES:
            parts.append(_ESCAPES[part[1]])
        elif part[1] != "\n":
            cursor.fail("an unknown escape sequence stands in a double-quoted scalar", start + place)
    return join_surrogates("".join(parts))


def plain(cursor: Cursor, indent: int, *, flow: bool) -> str:
    """The text of the plain scalar that starts here. Its further lines stand deeper than `indent`."""
    pattern = _PLAIN_FLOW_LINE if flow else _PLAIN_LINE
    match = pattern.match(cursor.text, cursor.position)
    assert match
    parts = [match.group()]
    cursor.position = match.end()
    while True:
        further = _plain_line_after(cursor, indent, pattern)
        if further is None:
            return "".join(parts)
        breaks, match = further
        parts += ["\n" * (breaks - 1) or " ", match.group()]
        cursor.move_to(match.end())


def _plain_line_after(cursor: Cursor, indent: int, pattern: re.Pattern[str]) -> tuple[int, re.Match[str]] | None:
    """How many line breaks lie before the scalar's next line, and that line; None where the scalar has ended."""
    gap = _BLANK_LINES.match(cursor.text, cursor.position)
    if not gap:
        return None
    spaces = _SPACES.match(cursor.text, gap.end())
    assert spaces
    if spaces.end() - gap.end() <= indent or cursor.marker_at(gap.end()):
        return None
    blanks = _BLANKS.match(cursor.text, gap.end())
    assert blanks
    match = pattern.match(cursor.text, blanks.end())
    if not match or not match.group():
        return None
    for line in gap.group().split("\n")[1:]:
        if line and len(line) - len(line.lstrip(" ")) <= indent and "\t" in line:
            cursor.undecided("a tab stands on an empty line inside a plain scalar")
    return gap.group().count("\n"), match


def block(cursor: Cursor, indent: int) -> tuple[str, bool]:
    """The text of the block scalar that starts here, and whether it was a folded one.

    Its lines stand deeper than `indent`; -1 is that of a scalar in no collection.
    """
    header = _HEADER.match(cursor.text, cursor.position)
    assert header
    chomping, explicit = _header(cursor, header.group(1))
    folds = cursor.char() == ">"
    cursor.position = header.end()
    cursor.skip_blanks()
    if cursor.char() == "#" and cursor.text[cursor.position - 1] in " \t":
        end = cursor.text.find("\n", cursor.position)
        cursor.position = cursor.length if end < 0 else end
    if cursor.char() not in ("", "\n"):
        cursor.fail("the header of a block scalar has more behind it")
    start = min(cursor.position + 1, cursor.length)
    least = max(indent, 0) + explicit if explicit else _detected_indent(cursor, start, indent)
    lines, end = _block_lines(cursor, start, least)
    if not any(line.strip(" ") for line in lines):
        if chomping == "+" and " " in cursor.text[start:end]:
            cursor.undecided("a block scalar keeps the line breaks of lines that hold only spaces")
        lines = [""] * len(lines)
    elif explicit and not next(line for line in reversed(lines) if line).strip(" "):
        cursor.undecided("a block scalar with an indentation indicator ends in a line of spaces")
    cursor.move_to(end)
    return _chomped(lines, chomping, folds=folds), folds


def _header(cursor: Cursor, indicators: str) -> tuple[str, int]:
    """The chomping indicator, and the indentation indicator or 0."""
    match = re.fullmatch(r"([+-]?)([1-9]?)|([1-9])([+-])", indicators)
    if not match:
        cursor.fail("the header of a block scalar is malformed")
    chomping = match.group(1) or match.group(4) or ""
    return chomping, int(match.group(2) or match.group(3) or 0)


def _detected_indent(cursor: Cursor, start: int, indent: int) -> int:
    """The indentation of the first line with content; deeper than `indent`, or the scalar has no lines."""
    deepest = 0
    line = start
    while line < cursor.length:
        match = _SPACES.match(cursor.text, line)
        assert match
        spaces = match.end() - line
        if match.end() < cursor.length and cursor.text[match.end()] != "\n":
            if spaces <= indent:
                if cursor.text[match.end()] == "\t":
                    cursor.fail("a tab stands where a block scalar is indented", line)
                return max(indent + 1, deepest)
            if deepest > spaces:
                cursor.fail("an empty line before a block scalar's first line is indented deeper than it", line)
            return spaces
        deepest = max(deepest, spaces)
        line = match.end() + 1
    return max(indent + 1, deepest)


def _block_lines(cursor: Cursor, start: int, least: int) -> tuple[list[str], int]:
    """The scalar's lines without their indentation, empty ones as they are, and where the scalar ends."""
    text = cursor.text
    lines: list[str] = []
    line = start
    while line < cursor.length:
        match = _SPACES.match(text, line)
        assert match
        spaces = match.end() - line
        stop = text.find("\n", match.end())
        stop = cursor.length if stop < 0 else stop
        if match.end() == stop:
            if stop < cursor.length or spaces > least:
                lines.append(text[line + least : stop])
        elif spaces < least:
            if text[match.end()] == "\t":
                cursor.fail("a tab stands where a block scalar is indented", line)
            break
        elif least == 0 and cursor.marker_at(line):
            break
        else:
            lines.append(text[line + least : stop])
        line = stop + 1
    return lines, min(line, cursor.length)


def _chomped(lines: list[str], chomping: str, *, folds: bool) -> str:
    count = len(lines)
    while count and not lines[count - 1]:
        count -= 1
    body, empty = lines[:count], len(lines) - count
    if not body:
        return "\n" * empty if chomping == "+" else ""
    text = _fold_lines(body) if folds else "\n".join(body)
    if chomping == "-":
        return text
    return text + "\n" * (empty + 1) if chomping == "+" else text + "\n"


def _fold_lines(lines: list[str]) -> str:
    """Lines joined by spaces; empty ones are line breaks, and so are those beside a line that starts with white
    space."""
    parts = [lines[0]]
    pending = 0 if lines[0] else 1
    spaced = lines[0][:1] in (" ", "\t")
    started = bool(lines[0])
    for line in lines[1:]:
        if not line:
            pending += 1
            continue
        indented = line[0] in " \t"
        if not started:
            parts.append("\n" * pending)
        elif indented or spaced:
            parts.append("\n" * (pending + 1))
        else:
            parts.append("\n" * pending or " ")
        parts.append(line)
        pending, spaced, started = 0, indented, True
    return "".join(parts)
