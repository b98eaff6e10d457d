"""What lint has to say: its rules, and findings in one order, with a severity that decides the exit code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from importlib.resources import files
from typing import Final

# The rules that are no errors.
_WARNINGS: Final = frozenset({"RN004", "RN106", "RN205", "RN207", "RN208", "RN209", "RN210"})


class Severity(IntEnum):
    """How sure and how grave. A note never fails a check unless it is asked to."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a file. Lines count from 1, columns from 1 in characters."""

    file: str
    line: int
    column: int
    end_line: int

    @staticmethod
    def whole_line(file: str, line: int) -> Place:
        return Place(file, line, 1, line)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that is wrong, and where. `related` are places that explain it."""

    place: Place
    rule: str
    message: str
    severity: Severity
    related: tuple[tuple[Place, str], ...] = ()

    @staticmethod
    def about_line(file: str, line: int, rule: str, message: str) -> Finding:
        """A finding about a whole line, as grave as its rule."""
        return Finding(Place.whole_line(file, line), rule, message, RULES[rule].severity)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A path that could not be looked at: nothing is known about it, which is not the same as nothing found."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """All that one run of lint found. `checked` are the files that were looked at."""

    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    unreadable: tuple[Unreadable, ...] = ()

    def exit_code(self, fail_on: Severity = Severity.WARNING) -> int:
        """3 when a file could not be read, 1 when a finding is at least as grave as `fail_on`, else 0."""
        if self.unreadable:
            return 3
        return int(any(finding.severity >= fail_on for finding in self.findings))


@dataclass(frozen=True, slots=True)
class Rule:
    """`text` is the rule's section of `rules.md`: its head, `summary`, `why`, a bad and a good example."""

    id: str
    name: str
    severity: Severity
    summary: str
    why: str
    text: str


def _rule(section: str) -> Rule:
    head, summary, why, *_ = section.rstrip().split("\n\n", 3)
    name, title = head.split(" ")
    severity = Severity.WARNING if name in _WARNINGS else Severity.ERROR
    return Rule(name, title, severity, summary, why, f"### {section.rstrip()}")


_SECTIONS: Final = files("reenact.lint").joinpath("rules.md").read_text(encoding="utf-8").split("### ")[1:]
RULES: Final[dict[str, Rule]] = {rule.id: rule for rule in map(_rule, _SECTIONS)}
