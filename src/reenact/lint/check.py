"""`check`: paths in, a report out. The code that is checked is never run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reenact.errors import UsageError
from reenact.lint.files import SourceFile, find_files, read_source
from reenact.lint.findings import Finding, Place, Report, Unreadable
from reenact.lint.rules import RULES
from reenact.lint.statements import analyse
from reenact.lint.suppress import silence

# Syntax trees are walked recursively, and generated code nests thousands of levels deep. A thread of its own has
# the stack for that; beyond it a function is reported as not analysed.
_STACK_BYTES: Final = 512 * 1024 * 1024
_RECURSION_LIMIT: Final = 20_000


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
        if self.ignore and rule.startswith(self.ignore):
            return False
        return not self.select or rule.startswith(self.select)


def check(paths: Sequence[str], options: Options | None = None) -> Report:
    """Everything that decides on what may differ between two runs, in these files and folders."""
    if not paths:
        raise UsageError("name at least one file or folder to check")
    wanted = options or Options()
    return _with_deep_stack(lambda: _check(paths, wanted))


def _check(paths: Sequence[str], options: Options) -> Report:
    sources: list[SourceFile] = []
    unreadable: list[Unreadable] = []
    for found in find_files(paths, options.exclude):
        source = found if isinstance(found, Unreadable) else read_source(*found)
        (unreadable if isinstance(source, Unreadable) else sources).append(source)  # type: ignore[arg-type]
    findings = [finding for source in sources for finding in _findings(source)]
    kept = sorted({finding for finding in findings if options.wants(finding.rule)})
    return Report(tuple(kept), tuple(source.shown for source in sources), tuple(unreadable))


def _findings(source: SourceFile) -> list[Finding]:
    """What one file is told: why it cannot be analysed, or what was found in it and no comment silences."""
    if source.tree is None:
        return [] if source.problem is None else [source.problem]
    lines = source.text.split("\n")
    found = [_in_characters(finding, lines) for finding in analyse(source, source.tree)]
    return silence(_without_echoes(found), source.text, source.shown)


def _in_characters(finding: Finding, lines: list[str]) -> Finding:
    """Syntax trees count columns in bytes; people and editors count characters."""
    row = lines[finding.place.line - 1]
    if row.isascii():
        return finding
    before = row.encode()[: finding.place.column - 1].decode(errors="replace")
    return replace(finding, place=replace(finding.place, column=len(before) + 1))


def _without_echoes(findings: list[Finding]) -> list[Finding]:
    """One finding for each rule, place and field: a loop's second pass or a second label adds nothing."""
    best: dict[tuple[Place, str, str], Finding] = {}
    for finding in sorted(findings, key=lambda one: (-one.severity, one)):
        best.setdefault((finding.place, finding.rule, finding.message.split(" (read in ")[0]), finding)
    return list(best.values())


def _with_deep_stack(work: Callable[[], Report]) -> Report:
    result: list[Report] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:  # noqa: BLE001  # handed over to the caller's thread as it is
            failure.append(error)

    before_size, before_limit = threading.stack_size(_STACK_BYTES), sys.getrecursionlimit()
    try:
        thread = threading.Thread(target=run, name="reenact-lint")
        sys.setrecursionlimit(max(before_limit, _RECURSION_LIMIT))
        thread.start()
        thread.join()
    except RuntimeError:  # no room for such a stack: what is nested deeper than this one allows is reported
        sys.setrecursionlimit(before_limit)
        run()
    finally:
        threading.stack_size(before_size)
        sys.setrecursionlimit(before_limit)
    if failure:
        raise failure[0]
    return result[0]
