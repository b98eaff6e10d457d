"""What a report's own markdown says about its run: title, brief, number of samples, models.

The rules are the original's, including where it sees less than a person would. They are bounded: a hostile report
takes time in proportion to its length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# JavaScript's `^` with the m flag: at the start, or after any of its four line ends.
_LINE: Final = r"(?<![^\n\r\u2028\u2029])"
_TITLE = re.compile(_LINE + r"# ahd (eval-image|eval|critique)(?= ·|\s)")
_BRIEF = re.compile(_LINE + r"-\s{1,99}Brief:\s{1,99}`([^`]{1,4096})`")
_SAMPLES = re.compile(_LINE + r"-\s{1,99}Samples per cell:\s{1,99}\*\*([0-9]{1,99})\*\*")
_COUNT = re.compile(r"\(n=([0-9]{1,99})\)")
_MODEL = re.compile(r"-\s{1,99}`([^`]{1,999})`\s{1,99}\(([^)]{1,299})\)\s{1,99}·\s{1,99}spec\s{1,99}`([^`]{1,999})`")
_CRITIC = re.compile(_LINE + r"critic:\s{1,99}`([^`]{1,999})`")
_CONDITION = re.compile(r"(?<![\w-])([\w-]{1,99}) \(n=[0-9]{1,99}\)")
_WORD = re.compile(r"\s*(\S{1,999})")
_LINE_ENDS: Final = "\n\r\u2028\u2029"
_MAX_SEPARATION: Final = 2000


@dataclass(frozen=True)
class Title:
    """`# ahd <kind> · <token> · <instant>`"""

    kind: str
    token: str
    run_at: str


@dataclass(frozen=True)
class Header:
    """What the markdown says. `title` is None when no line has the expected pattern."""

    title: Title | None
    brief: str | None
    samples: float
    models: tuple[tuple[str, str], ...]


def read_header(markdown: str) -> Header:
    """The header as the original reads it."""
    title = read_title(markdown)
    brief = _BRIEF.search(markdown)
    models = read_models(markdown)
    if title is not None and title.kind == "critique" and not models:
        critic = _CRITIC.search(markdown)
        models = ((critic.group(1), "critic"),) if critic else ()
    return Header(title, brief.group(1) if brief else None, _samples(markdown), models)


def read_title(markdown: str) -> Title | None:
    for match in _TITLE.finditer(markdown):
        start = match.end() + (2 if markdown.startswith(" ·", match.end()) else 1)
        dot = markdown.find("·", start, start + _MAX_SEPARATION)
        token = markdown[start:dot].strip() if dot >= 0 else ""
        run_at = _WORD.match(markdown, dot + 1) if dot >= 0 else None
        if token and "\n" not in token and run_at:
            kind = "eval-live" if match.group(1) == "eval" else match.group(1)
            return Title(kind, token, run_at.group(1))
    return None


def _samples(markdown: str) -> float:
    """The number of samples per cell; without that line, the sum over the cells of the tables; else 0."""
    line = _SAMPLES.search(markdown)
    if line:
        return _number(line.group(1))
    return sum(_number(count) for count in _COUNT.findall(markdown))


def _number(digits: str) -> float:
    return int(digits) if len(digits) <= 15 else float(digits)


def read_models(markdown: str, *, flush_left: bool = False) -> tuple[tuple[str, str], ...]:
    """Each listed model as (spec, provider). The original sees an item only when white space stands before its
    dash on the line; with `flush_left`, one at the start of a line counts too."""
    found = []
    position = 0
    while match := _MODEL.search(markdown, position):
        if _is_item(markdown, match.start(), flush_left=flush_left):
            found.append((match.group(3), match.group(2)))
            position = match.end()
        else:
            position = match.start() + 1
    return tuple(found)


def _is_item(markdown: str, dash: int, *, flush_left: bool) -> bool:
    start = dash
    while start > 0 and markdown[start - 1].isspace():
        start -= 1
    space = markdown[start:dash]
    if flush_left and (dash == 0 or space[-1:] in _LINE_ENDS):
        return True
    return (start == 0 and bool(space)) or any(char in _LINE_ENDS for char in space[:-1])


def read_conditions(markdown: str) -> tuple[str, ...]:
    """The names that stand before a count in a table's head, `raw (n=10)`, each once."""
    return tuple(dict.fromkeys(_CONDITION.findall(markdown)))
