"""Pages as something to execute: files to write, programs to run, commands with what they print.

What a page shows is compared in full, line by line and in order: nothing before, between or after the lines shown.

- `…` inside a line stands for anything within that line; a line that is only `…` stands for any number of lines.
  Nothing else may differ, but blanks at the end of a line.
- A command with no lines under it prints nothing. Where the output does not matter, a line `…` says so.
- stdout and stderr are one stream, as on a terminal. It is a plain one: no colours, no progress bar.
- A command ends with exit code 0, or with the one that it names: `$ command  # exit 4`. A command that a signal ended
  shows what an interactive shell says of it (`Killed`).
- What a `python` block prints stands in the `text` block right after it; where there is none, it prints nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<lang>[a-z]*)[^\n]*\n(?P<body>.*?)^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"^(?:#|//) ?(?P<name>[\w./-]+\.(?:py|json|toml|md))\s*$")
FILE_COMMENT = re.compile(r"<!-- file: (?P<name>[\w./-]+) -->\s*\Z")
COMMANDS = ("console", "bash", "sh", "shell")
ANYTHING = "…"


@dataclass(frozen=True)
class Block:
    """One fenced block; `shown` is what a program prints, where the page shows it."""

    line: int
    lang: str
    body: str
    file: str | None
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    text: str
    shown: tuple[str, ...]
    exit_code: int


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order; the output of a program is part of the program's block."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(text):
        before = text[: match.start()]
        after_a_program = bool(found) and found[-1].lang == "python" and found[-1].file is None
        if match["lang"] == "text" and after_a_program and not text[end : match.start()].strip():
            found[-1] = replace(found[-1], shown=tuple(match["body"].splitlines()))
        else:
            named = FILE_COMMENT.search(before) or NAME.match(match["body"].split("\n", 1)[0])
            found.append(
                Block(
                    line=before.count("\n") + 1,
                    lang=match["lang"],
                    body=match["body"],
                    file=named["name"] if named else None,
                )
            )
        end = match.end()
    return found


def commands(body: str) -> list[Command]:
    """`$ command` lines, each with the lines that it prints; `# exit 4` at its end names another exit code than 0."""
    found: list[Command] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            text, _, code = line[2:].partition("  # exit ")
            found.append(Command(text.strip(), (), int(code or 0)))
            continue
        if not found:
            raise ValueError(f"a block of commands begins with a line `$ command`, not with {line!r}")
        last = found[-1]
        if line.startswith("> ") and last.text.endswith("\\"):
            found[-1] = replace(last, text=f"{last.text}\n{line[2:]}")
        else:
            found[-1] = replace(last, shown=(*last.shown, line))
    return found


def difference(shown: tuple[str, ...], printed: str) -> str | None:
    """Where what was printed is not what a page shows, in one line; None where it is."""
    lines = printed.splitlines()
    parts = parted(shown)
    if len(parts) == 1:
        return unlike(parts[0], lines, at=0) or too_many(parts[0], lines)
    first, *middle, last = parts
    if said := unlike(first, lines, at=0):
        return said
    at = len(first)
    for part in middle:  # the earliest place is the one that leaves most to the parts after it
        place = next((n for n in range(at, len(lines)) if unlike(part, lines, at=n) is None), None)
        if place is None:
            return f"nowhere after line {at}: {part[0]!r}" + (" with the lines under it" if len(part) > 1 else "")
        at = place + len(part)
    if len(lines) - len(last) < at:
        return f"it ends too early, before {last[0]!r}"
    return unlike(last, lines, at=len(lines) - len(last))


def parted(shown: tuple[str, ...]) -> list[list[str]]:
    """The lines between the lines that are only `…`; the first and the last of them may be empty."""
    parts: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == ANYTHING:
            parts.append([])
        else:
            parts[-1].append(line)
    return [part for n, part in enumerate(parts) if part or n in (0, len(parts) - 1)]


def unlike(part: list[str], lines: list[str], *, at: int) -> str | None:
    for n, line in enumerate(part, start=at):
        if n >= len(lines):
            return f"it ends too early, before {line!r}"
        if not is_like(line, lines[n]):
            return f"line {n + 1} is {lines[n]!r}, the page shows {line!r}"
    return None


def too_many(part: list[str], lines: list[str]) -> str | None:
    return f"the page does not show {lines[len(part)]!r}" if len(lines) > len(part) else None


def is_like(shown: str, printed: str) -> bool:
    """Whether one line is the one shown; `…` stands for anything within it."""
    pattern = ".*".join(re.escape(part) for part in shown.rstrip().split(ANYTHING))
    return re.fullmatch(pattern, printed.rstrip()) is not None
