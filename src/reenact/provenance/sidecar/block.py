"""Finding, reading and placing the replay block in a report's markdown.

Fences are tracked over the whole document, so that a block that is only quoted in another fence is no block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from reenact.errors import UsageError
from reenact.provenance.sidecar.render import render_block
from reenact.provenance.sidecar.sidecar import AnySidecar

INFO_STRINGS: Final = ("yaml ahd-replay", "yaml reenact-replay")
COMMAND_TITLE: Final = "Replay this run:"

_OPENING = re.compile(r" {0,3}(`{3,}+|~{3,}+)[ \t]*+([^\n]*+)")
_TITLE = re.compile(r"#[ \t]+\S")
_CRITIC = re.compile(r"critic:")
_FIELD = re.compile(r"( *)(- )?([a-z_]+):(?: (.*))?")


class BlockError(UsageError):
    """A report in which the block cannot be found without doubt, or placed without breaking it."""

    code = "REPLAY_BLOCK_INVALID"


@dataclass(frozen=True)
class ParsedBlock:
    """A block as it stands in a report: lines `start` to `end` (exclusive, from 0) of the markdown.

    `fields` maps a path such as `models[0].id` to the text after its colon. `unread` has the numbers, from 1,
    of lines inside that are no field or repeat one. `command` is the content of the shell fence, if there is one.
    """

    info: str
    start: int
    end: int
    fields: dict[str, str]
    unread: tuple[int, ...]
    command: tuple[str, ...] | None


@dataclass(frozen=True)
class BlockDifference:
    """Where the markdown says something else than the sidecar. None stands for a field that is not there."""

    field: str
    expected: str | None
    shown: str | None


@dataclass(frozen=True)
class _Fence:
    start: int
    end: int  # exclusive; the closing line is the last one
    info: str
    closed: bool


def parse_block(markdown: str) -> ParsedBlock | None:
    """The report's block, read by line; None without one. BlockError when there are two, or it never ends."""
    lines = _lines(markdown)
    fences = _fences(lines)
    places = [index for index, fence in enumerate(fences) if fence.info in INFO_STRINGS]
    if not places:
        return None
    if len(places) > 1:
        second = fences[places[1]].start + 1
        raise BlockError(f"the report holds a second replay block at line {second}: remove one of them")
    fence = fences[places[0]]
    if not fence.closed:
        raise BlockError(f"the replay block at line {fence.start + 1} has no closing fence")
    follower = fences[places[0] + 1] if places[0] + 1 < len(fences) else None
    end, command = _command_after(lines, fence, follower)
    fields, unread = _fields(lines, fence)
    return ParsedBlock(fence.info, fence.start, end, fields, tuple(unread), command)


def insert_block(markdown: str, block: str, kind: str) -> str:
    """The markdown with the block in it: in the place of the one that is there, else after the title and a
    blank line (for a critique after its `critic:` line, when it has one).

    BlockError when the block could not be read back from the result, because a value in it ends its fence.
    """
    mark = "\ufeff" if markdown.startswith("\ufeff") else ""
    if mark:
        return mark + insert_block(markdown[1:], block, kind)
    newline = "\r\n" if "\r\n" in markdown else "\n"
    lines = markdown.split("\n")
    found = parse_block(markdown)
    wanted = block.replace("\n", newline).split("\n")
    if newline == "\r\n":
        wanted[-1] += "\r"
    if found is not None:
        last = found.end == len(lines)
        lines[found.start : found.end] = [*wanted[:-1], wanted[-1].removesuffix("\r")] if last else wanted
    else:
        lines = _inserted(lines, wanted, kind)
    result = "\n".join(lines)
    again = parse_block(result)
    if again is None or _lines(result)[again.start : again.end] != _lines(block):
        raise BlockError("a value of the replay block holds a line that would end its fence: it cannot be written")
    return result


def compare_block(markdown: str, sidecar: AnySidecar) -> tuple[BlockDifference, ...] | None:
    """Each field in which the report's block differs from what the sidecar renders to; None without one."""
    shown = parse_block(markdown)
    if shown is None:
        return None
    text = render_block(sidecar)
    lines = _lines(markdown)[shown.start : shown.end]
    if lines == _lines(text):
        return ()
    try:
        expected = parse_block(text)
    except BlockError:
        expected = None
    if expected is None:
        return (BlockDifference("block", None, None),)
    found = [
        BlockDifference(name, expected.fields.get(name), shown.fields.get(name))
        for name in {**expected.fields, **shown.fields}
        if expected.fields.get(name) != shown.fields.get(name)
    ]
    if shown.info != expected.info:
        found.insert(0, BlockDifference("fence", expected.info, shown.info))
    if shown.command != expected.command:
        found.append(BlockDifference("command", _joined(expected.command), _joined(shown.command)))
    return tuple(found) or (BlockDifference("layout", None, None),)


def _joined(command: tuple[str, ...] | None) -> str | None:
    return None if command is None else "\n".join(command)


def _lines(markdown: str) -> list[str]:
    return [line.removesuffix("\r") for line in markdown.split("\n")]


def _fences(lines: list[str]) -> list[_Fence]:
    found: list[_Fence] = []
    index = 0
    while index < len(lines):
        opening = _OPENING.fullmatch(lines[index])
        if not opening or (opening.group(1)[0] == "`" and "`" in opening.group(2)):
            index += 1
            continue
        marker = opening.group(1)
        closing = re.compile(rf" {{0,3}}{re.escape(marker[0])}{{{len(marker)},}}[ \t]*")
        end = next((n for n in range(index + 1, len(lines)) if closing.fullmatch(lines[n])), None)
        stop = len(lines) if end is None else end + 1
        found.append(_Fence(index, stop, opening.group(2).strip(), closed=end is not None))
        index = stop
    return found


def _command_after(lines: list[str], fence: _Fence, follower: _Fence | None) -> tuple[int, tuple[str, ...] | None]:
    """Where the block ends, and its command, when the title and a shell fence stand right behind it."""
    if follower is None or follower.info != "sh" or not follower.closed:
        return fence.end, None
    between = [line for line in lines[fence.end : follower.start] if line]
    if between != [COMMAND_TITLE]:
        return fence.end, None
    return follower.end, tuple(lines[follower.start + 1 : follower.end - 1])


def _fields(lines: list[str], fence: _Fence) -> tuple[dict[str, str], list[int]]:
    fields: dict[str, str] = {}
    unread: list[int] = []
    section, item = "", -1
    for number in range(fence.start + 1, fence.end - 1):
        match = _FIELD.fullmatch(lines[number])
        indent = len(match.group(1)) if match else -1
        if not match or (indent, bool(match.group(2))) not in {(0, False), (2, False), (2, True), (4, False)}:
            unread.append(number + 1)
            continue
        key, value = match.group(3), match.group(4) or ""
        if indent == 0:
            section, item, path = key, -1, key
        else:
            item += 1 if match.group(2) else 0
            path = f"{section}.{key}" if indent == 2 and not match.group(2) else f"{section}[{item}].{key}"
        if path in fields or (indent and not section):
            unread.append(number + 1)
        else:
            fields[path] = value
    return fields, unread


def _inserted(lines: list[str], block: list[str], kind: str) -> list[str]:
    inside = {n for fence in _fences([line.removesuffix("\r") for line in lines]) for n in range(*_span(fence))}
    outside = [n for n in range(len(lines)) if n not in inside]
    title = next((n for n in outside if _TITLE.match(lines[n])), None)
    anchor = title
    if kind == "critique":
        anchor = next((n for n in outside if n > (title or 0) and _CRITIC.match(lines[n])), title)
    blank = "\r" if block[0].endswith("\r") else ""
    if anchor is None:
        return [*block, blank, *lines]
    before, after = lines[: anchor + 1], lines[anchor + 1 :]
    if blank and not before[-1].endswith("\r"):
        before[-1] += "\r"
    while after and not after[0].strip():
        after.pop(0)
    return [*before, blank, *block, blank, *after] if after else [*before, blank, *block, ""]


def _span(fence: _Fence) -> tuple[int, int]:
    return fence.start, fence.end
