"""A verification for people: a line for each field, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from reenact.provenance.verify.model import Check, Report, Status, Verification
from reenact.provenance.verify.report_escape import printable

_MAX_LINE = 2000


def text_lines(verification: Verification, *, verbose: bool = False) -> Iterator[str]:
    """The lines of a verification. Of several reports, those that hold take one line each unless `verbose`.

    Every line begins with a word of ours and is one line, whatever the sidecars say.
    """
    alone = len(verification.reports) == 1
    for report in verification.reports:
        brief = not verbose and not alone and report.verdict == "holds" and not report.has_warnings
        lines = [_one_line(report)] if brief else _report_lines(report)
        yield from (printable(line, _MAX_LINE) for line in lines)
    if not alone:
        yield summary_line(verification)


def summary_line(verification: Verification) -> str:
    counted = [f"{verification.count('holds')} hold"]
    if verification.warned:
        counted[0] += f" ({verification.warned} with warnings)"
    counted += [
        f"{verification.count(verdict)} {verdict}"
        for verdict in ("drifted", "not checked")
        if verification.count(verdict)
    ]
    number = len(verification.reports)
    return f"{number} report{'s' * (number != 1)}: {', '.join(counted)}"


def _one_line(report: Report) -> str:
    relocated = sum(check.status is Status.RELOCATED for check in report.checks)
    return f"ok    {printable(report.subject)}" + (f" ({relocated} relocated)" if relocated else "")


def _report_lines(report: Report) -> Iterator[str]:
    yield f"report {printable(report.subject)}"
    yield f"  sidecar {printable(report.sidecar)}"
    for name, value in report.facts.items():
        yield f"  {name}: {printable(value)}"
    if report.problem is not None:
        yield f"  FAIL  {report.problem.kind}: {printable(report.problem.message, _MAX_LINE)}"
    for check in report.checks:
        yield from check_lines(check)
    yield f"  verdict: {report.verdict}"


def check_lines(check: Check) -> Iterator[str]:
    """The lines of one field: its status, and for one that fails what was expected and who changed it."""
    place = printable(check.found or check.path or "")
    label = check.status.value if check.level == "FAIL" else ""
    detail = printable(check.detail)
    if place and detail:
        detail = f"{place} ({detail})"
    words = ": ".join(word for word in (label, detail or place) if word)
    yield f"  {check.level:<5} {printable(check.field)}: {words}"
    if check.level == "FAIL" and check.expected:
        yield f"        expected {printable(check.expected)}"
        yield f"        actual   {printable(check.actual or '<none>')}"
    if check.changed_by is not None:
        commit = check.changed_by
        verb = "deleted" if check.status is Status.ERASED else "changed"
        yield f"        {verb} by {commit.id[:12]} on {printable(commit.day)}: {printable(commit.subject, 120)}"
