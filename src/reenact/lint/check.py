"""`check`: paths in, a report out. The code that is checked is never run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reenact.errors import UsageError
from reenact.lint.engine import Engine, Unit
from reenact.lint.files import SourceFile, find_files, read_source
from reenact.lint.findings import Finding, Place, Report, Severity, Unreadable
from reenact.lint.frame import TooMuch, line_of
from reenact.lint.program import load
from reenact.lint.rules import RULES
from reenact.lint.statements import Statements
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
    by_file = _analyse(sources)
    findings: list[Finding] = []
    for source in sources:
        if source.problem is not None:
            findings.append(source.problem)
        else:
            findings += silence(by_file.get(source.shown, []), source.text, source.shown)
    kept = sorted({finding for finding in findings if options.wants(finding.rule)})
    return Report(tuple(kept), tuple(source.shown for source in sources), tuple(unreadable))


def _analyse(sources: list[SourceFile]) -> dict[str, list[Finding]]:
    engine = Engine(load(sources))
    engine.prepare()
    engine.run(_analyse_unit)
    lines = {source.shown: source.text.split("\n") for source in sources}
    by_file: dict[str, list[Finding]] = {}
    for found in engine.findings.values():
        for finding in found:
            by_file.setdefault(finding.place.file, []).append(_in_characters(finding, lines))
    return {file: _without_echoes(findings) for file, findings in by_file.items()}


def _analyse_unit(engine: Engine, unit: Unit) -> None:
    walker = Statements(engine, unit)
    try:
        if unit.function is not None:
            walker.analyse(unit.function)
            return
        walker.run(unit.module.tree.body)
    except RecursionError:
        _not_analysed(engine, unit, "the code is nested too deeply and was not analysed")
    except TooMuch:
        _not_analysed(engine, unit, "the code takes too much work and was not analysed to its end")
    except Exception as error:  # noqa: BLE001  # whatever the code looks like, the other files are still checked
        reason = f"{type(error).__name__} in lint itself, please report it"
        _not_analysed(engine, unit, f"the code was not analysed: {reason}")
    for name, value in walker.env.names.items():
        engine.define_global(unit.module, name, value)


def _not_analysed(engine: Engine, unit: Unit, message: str) -> None:
    if unit.module.wanted:
        line = line_of(unit.module.tree if unit.function is None else unit.function.node)
        place = Place(unit.module.shown, line, 1, line)
        engine.findings[unit.key][Finding(place, "RN005", message, Severity.ERROR)] = None


def _in_characters(finding: Finding, lines: dict[str, list[str]]) -> Finding:
    """Syntax trees count columns in bytes; people and editors count characters."""
    rows = lines.get(finding.place.file, [])
    row = rows[finding.place.line - 1] if finding.place.line <= len(rows) else ""
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
