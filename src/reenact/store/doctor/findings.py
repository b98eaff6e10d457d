"""What a look at a store finds, and what to type about it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "note", "warning", "trouble"]
"""`note`: nothing to do. `warning`: a person should look. `trouble`: the store cannot be used, or is damaged."""

NAMED = 10
"""So many runs of a kind are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One look: what was looked at, how it is, and what to do about it. One line each."""

    subject: str
    verdict: Verdict
    says: str
    do: str | None = None


def flat(text: str) -> str:
    """What a database says in several lines, in one."""
    return "; ".join(line.strip(" *") for line in text.splitlines() if line.strip(" *"))


def command(store: str | None, *words: str) -> str:
    """A command that can be copied as it stands, for the store that was named with --store."""
    return shlex.join(["reenact", *words, *([] if store is None else ["--store", store])])


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
