"""A pattern that begins by looking ahead, in parts: `^(?!A)(?=B)C` holds where `^C` and `^B` do and `^A` does not.

So most of those that people write (no two dots, not blank, one digit at least) are held against a text in linear time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

LOOKS: Final = ("(?=", "(?!")
REPEATS: Final = frozenset("*+{?")
UNSURE: Final = "[["


def apart(pattern: str) -> list[tuple[str, bool]]:
    """The parts, and whether each is to match; none where it does not begin so, or is not read with certainty."""
    if not pattern.startswith("^"):
        return []
    found: list[tuple[str, bool]] = []
    at = 1
    while pattern.startswith(LOOKS, at):
        end = next((place for place, char, depth in signs(pattern, at) if char == ")" and depth == 0), None)
        if end is None or pattern[end + 1 : end + 2] in REPEATS:
            return []
        found.append((f"^(?:{pattern[at + 3 : end]})", pattern[at + 2] == "="))
        at = end + 1
    rest = pattern[at:]
    if any((char == "|" and depth == 0) or char == UNSURE for _, char, depth in signs(rest, 0)):
        return []
    return [*found, (f"^{rest}", True)] if found else []


def signs(pattern: str, start: int) -> Iterator[tuple[int, str, int]]:
    """(where, which, how many groups are open behind it) of each sign that is not escaped and in no class.

    `UNSURE`, and nothing more, at a class that engines read differently: `[]a]`, `[a[b]]`.
    """
    depth, at = 0, start
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 2
            continue
        if char == "[":
            at = class_end(pattern, at)
            if at < 0:
                yield start, UNSURE, 0
                return
        depth += (char == "(") - (char == ")")
        yield at, char, depth
        at += 1


def class_end(pattern: str, start: int) -> int:
    """Where a class ends; -1 where engines do not agree."""
    at = start + 1 + pattern.startswith("^", start + 1)
    if pattern.startswith("]", at):
        return -1
    while at < len(pattern) and pattern[at] not in "[]":
        at += 2 if pattern[at] == "\\" else 1
    return at if pattern.startswith("]", at) else -1


def repeats_once(pattern: str) -> bool:
    """Whether one sign at the most has a part of it repeated: each one more multiplies the ways to try."""
    found = [char for _, char, _ in signs(pattern, 0)]
    return sum(map(found.count, "*+{")) <= 1 and UNSURE not in found
