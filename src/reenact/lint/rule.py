"""What a rule is."""

from __future__ import annotations

from dataclasses import dataclass

from reenact.lint.findings import Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """`bad` is code that the rule speaks about, `good` the same thing done so that no rule does."""

    id: str
    name: str
    severity: Severity
    summary: str
    why: str
    bad: str = ""
    good: str = ""
