"""Printing: JSON documents, lines with styles, and foreign text made safe for a terminal. Nothing else here prints."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

MOST_SHOWN: Final = 500
USUAL_WIDTH: Final = 80
Segment = tuple[str, str]
"""Text and the style that it has on a terminal with colours."""


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """The one place that prints: text of ours with foreign text in it, which cannot speak to the terminal.

    Lines stay lines: what must be one goes through `one_line` before.
    """
    typer.echo(text if text.isprintable() else "\n".join(map(one_line, text.split("\n"))), err=err, nl=nl)


def say_json(text: str, *, nl: bool = True) -> None:
    """A JSON document, in UTF-8 whatever the locale says.

    What is left of control characters in it (C1, bidi, zero width) is written as JSON escapes.
    """
    shown = "\n".join(line if line.isprintable() else json_line(line) for line in text.split("\n"))
    typer.echo(shown.encode(), nl=nl)


def say_in_utf8(text: str, *, err: bool = False) -> None:
    """As `say`, byte for byte, whatever the locale says."""
    shown = text if text.isprintable() else "\n".join(map(one_line, text.split("\n")))
    typer.echo(shown.encode("utf-8", "backslashreplace"), err=err, nl=False)


def json_line(line: str) -> str:
    return "".join(char if char.isprintable() else json_escape(char) for char in line)


def json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def print_json(value: object) -> None:
    """One JSON document on stdout, indented, in UTF-8 whatever the locale says."""
    import msgspec

    say_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_lines(lines: Iterable[list[Segment]], *, err: bool = False) -> None:
    """Lines of segments: coloured on a terminal, plain text anywhere else and under NO_COLOR."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        for line in lines:
            say(as_plain(line), err=err)
        return
    console = terminal(err=err)
    for line in lines:
        console.print(as_text(line), soft_wrap=True)


def as_plain(line: list[Segment]) -> str:
    """A line for pipes and files: one, whatever stands in it."""
    return one_line("".join(text for text, _ in line))


def as_text(line: list[Segment]) -> Text:
    """A line for a terminal; whatever stands in it, it cannot speak to it."""
    from rich.text import Text

    return Text.assemble(*((one_line(text), style) for text, style in line))


def terminal(*, err: bool = False) -> Console:
    """The terminal behind stdout or stderr."""
    from rich.console import Console

    console = Console(stderr=err, highlight=False)
    if console.width < 1:  # COLUMNS=0 says that nobody knows; taken at its word, nothing at all would be shown
        console.width = USUAL_WIDTH
    return console


def one_line(text: str) -> str:
    """Foreign text cannot forge a second line, or speak to the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def brief(text: str) -> str:
    """Foreign text as one line that a person may read; `--json` has all of it."""
    line = one_line(text[: MOST_SHOWN + 1])
    return line if len(text) <= MOST_SHOWN else f"{one_line(text[:MOST_SHOWN])}… ({len(text)} characters)"


def short(digest: object) -> str:
    """The beginning of a digest: enough to tell it from others on a screen."""
    return str(digest).removeprefix("sha256:")[:12]


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
