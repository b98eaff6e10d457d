"""Every rule: its id, how grave it is, and what is said about it in `rules.md` and so on the reference page."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from reenact.lint.findings import Severity

_WARNINGS: Final = frozenset({"RN004", "RN106", "RN205", "RN207", "RN208", "RN209", "RN210"})


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
    head, summary, why, *_ = section.split("\n\n", 3)
    _, name, title = head.split(" ")
    return Rule(name, title, Severity.WARNING if name in _WARNINGS else Severity.ERROR, summary, why, section)


def _rules() -> dict[str, Rule]:
    text = files("reenact.lint").joinpath("rules.md").read_text(encoding="utf-8")
    sections = [f"### {part.rstrip()}" for part in text.split("### ")[1:]]
    return {rule.id: rule for rule in map(_rule, sections)}


RULES: Final[dict[str, Rule]] = _rules()
