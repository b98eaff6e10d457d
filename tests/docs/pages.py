"""Pages as something to execute: files to write, programs to run, commands with what they print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<lang>[a-z]*)[^\n]*\n(?P<body>.*?)^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"^(?:#|//) ?(?P<name>[\w./-]+\.(?:py|json|toml|md))\s*$")
FILE_COMMENT = re.compile(r"<!-- file: (?P<name>[\w./-]+) -->\s*\Z")
NOT_RUN = re.compile(r"<!-- not run: (?P<why>.+?) -->\s*\Z")


@dataclass(frozen=True)
class Block:
    line: int
    lang: str
    body: str
    file: str | None
    not_run: str | None


@dataclass(frozen=True)
class Command:
    text: str
    expected: list[str]
    exit_code: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        before = text[: match.start()]
        first = match["body"].split("\n", 1)[0]
        named = FILE_COMMENT.search(before) or NAME.match(first)
        skipped = NOT_RUN.search(before)
        found.append(
            Block(
                line=before.count("\n") + 1,
                lang=match["lang"],
                body=match["body"],
                file=named["name"] if named else None,
                not_run=skipped["why"] if skipped else None,
            )
        )
    return found


def commands(body: str) -> list[Command]:
    """`$ command` lines, each with the lines that it prints; `# exit 4` at its end names another exit code than 0."""
    found: list[Command] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            text, _, code = line[2:].partition("  # exit ")
            found.append(Command(text.strip(), [], int(code or 0)))
        elif line.startswith("> ") and found and found[-1].text.endswith("\\"):
            found[-1] = Command(f"{found[-1].text}\n{line[2:]}", [], found[-1].exit_code)
        elif line.strip() and found:
            found[-1].expected.append(line)
    return found


def matches(expected: str, printed: str) -> bool:
    """`…` stands for anything."""
    pattern = ".*?".join(re.escape(part) for part in re.split(r"…|\.\.\.", expected.strip()))
    return re.search(pattern, printed) is not None
