"""`reenact lint`: find code that decides on what may differ between two runs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from reenact.cli.screens.printing import say, say_json
from reenact.errors import StoreUnavailable, UsageError


class Format(Enum):
    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


class FailOn(Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


def lint(
    paths: Annotated[list[str] | None, typer.Argument(metavar="PATH…", help="Files and folders to check.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How to print the report.")] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report there.")
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option("--select", metavar="RULES", help="Only these, as RN1,RN203.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", metavar="RULES", help="Not these.")] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", metavar="GLOB", help="Leave these out.")] = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="The least severity for exit code 1.")] = FailOn.WARNING,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules.")] = False,
    explain: Annotated[str | None, typer.Option("--explain", metavar="RULE", help="Explain one rule.")] = None,
) -> None:
    """Find code that decides on what may differ between two runs. It is read, never run.

    Exit codes: 0 nothing found, 1 something found, 2 usage, 3 a file cannot be read.
    """
    if rules or explain is not None:
        say(_about_rules(explain))
        return
    from reenact.lint.check import Options, check
    from reenact.lint.findings import Severity
    from reenact.lint.output import summary

    report = check(paths or [], Options(_split(select), _split(ignore), tuple(exclude or ())))
    threshold = Severity[fail_on.name]
    text = _rendered(report, Format.JSON if as_json else form, threshold)
    if output is None:
        show = say if form is Format.TEXT and not as_json else say_json
        show(text, nl=False)
    else:
        _write(output, text)
        say(summary(report))
    for one in report.unreadable:
        say(f"error: {one.file!r} cannot be read: {one.reason} [IO_ERROR]", err=True)
    code = report.exit_code(threshold)
    if code:
        raise typer.Exit(code)


def _rendered(report: object, form: Format, threshold: object) -> str:
    from reenact import __version__
    from reenact.lint.findings import Report, Severity
    from reenact.lint.output import as_json, as_sarif, as_text

    assert isinstance(report, Report)
    assert isinstance(threshold, Severity)
    if form is Format.SARIF:
        return as_sarif(report, __version__)
    return as_json(report, threshold) if form is Format.JSON else as_text(report)


def _about_rules(wanted: str | None) -> str:
    from reenact.lint.findings import RULES

    if wanted is None:
        return "\n".join(f"{rule.id}  {rule.severity.word:8}{rule.name:28}{rule.summary}" for rule in RULES.values())
    if wanted not in RULES:
        raise UsageError(f"there is no rule {wanted!a}; `reenact lint --rules` lists them")
    return RULES[wanted].text


def _split(values: list[str] | None) -> tuple[str, ...]:
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreUnavailable(f"the report cannot be written to {file!r}: {error.strerror or error}") from error
