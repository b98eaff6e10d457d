"""What most often makes a program diverge, and what it takes instead."""

from __future__ import annotations

import re
from typing import Final

UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")
TIME: Final = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?)?( ?(Z|[+-]\d\d:?\d\d))?")
SECONDS: Final = range(10**9, 10**10)
MILLISECONDS: Final = range(10**12, 10**13)


def to_account_for(names: list[str]) -> str:
    return f"a program that knows of it by itself says so before it goes on: session.account_for({names!r})"


def about(before: object, after: object) -> str | None:
    """In a word, where the two are alike but for a time, a UUID or a random number."""
    if isinstance(before, str) and isinstance(after, str):
        if differ_in(UUID, before, after):
            return "it looks like a UUID that is made anew: session.uuid() gives the same one in every start"
        if differ_in(TIME, before, after):
            return is_time()
    if not (is_number(before) and is_number(after)):
        return None
    numbers = (float(str(before)), float(str(after)))
    if any(all(int(number) in times for number in numbers) for times in (SECONDS, MILLISECONDS)):
        return is_time()
    if all(0 < number < 1 for number in numbers):
        return "it looks like a random number: session.random() gives the same one in every start"
    return None


def differ_in(pattern: re.Pattern[str], before: str, after: str) -> bool:
    """And in nothing else."""
    rest, found = pattern.subn("", before)
    return found > 0 and (rest, found) == pattern.subn("", after)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_time() -> str:
    return "it looks like the time of day: session.now() gives the same one in every start"
