"""`check`: paths in, a report out. The code that is checked is never run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reenact.errors import UsageError
from reenact.lint.files import SourceFile, find_files, read_source
from reenact.lint.findings import RULES, Finding, Report, Unreadable
from reenact.lint.statements import analyse
from reenact.lint.suppress import silence


@dataclass(frozen=True, slots=True)
class Options:
    """Which rules count: an id or the beginning of one (`RN1`); none selected means all."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for prefix in (*self.select, *self.ignore):
            if not any(rule.startswith(prefix) for rule in RULES):
                raise UsageError(f"there is no rule {prefix!a}; `reenact lint --rules` lists them")

    def wants(self, rule: str) -> bool:
        return rule.startswith(self.select or "RN") and not rule.startswith(self.ignore)


def check(paths: Sequence[str], options: Options | None = None) -> Report:
    """Everything that decides on what may differ between two runs, in these files and folders."""
    if not paths:
        raise UsageError("name at least one file or folder to check")
    wanted = options or Options()
    found = [one if isinstance(one, Unreadable) else read_source(one) for one in find_files(paths, wanted.exclude)]
    sources = [one for one in found if isinstance(one, SourceFile)]
    unreadable = tuple(one for one in found if isinstance(one, Unreadable))
    findings = {finding for source in sources for finding in _findings(source) if wanted.wants(finding.rule)}
    return Report(tuple(sorted(findings)), tuple(source.shown for source in sources), unreadable)


def _findings(source: SourceFile) -> list[Finding]:
    """What one file is told: why it cannot be analysed, or what was found in it and no comment silences."""
    if isinstance(source.tree, Finding):
        return [source.tree]
    lines = source.text.split("\n")
    found = [_in_characters(finding, lines) for finding in analyse(source.shown, source.tree)]
    return silence(found, source.text, source.shown)


def _in_characters(finding: Finding, lines: list[str]) -> Finding:
    """Syntax trees count columns in bytes; people and editors count characters."""
    row = lines[finding.place.line - 1]
    if row.isascii():
        return finding
    before = row.encode()[: finding.place.column - 1].decode(errors="replace")
    return replace(finding, place=replace(finding.place, column=len(before) + 1))
