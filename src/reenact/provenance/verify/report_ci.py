"""A verification for build services: JUnit XML, and a summary in markdown for the page of a workflow run."""

from __future__ import annotations

from collections.abc import Iterator

from reenact.provenance.verify.model import Report, Status, Verification
from reenact.provenance.verify.report_escape import in_markdown, in_markup
from reenact.provenance.verify.report_text import check_lines, summary_line

_MAX_ROWS = 200


def verification_junit(verification: Verification) -> str:
    """JUnit XML: a suite for each report, a case for each field; what could not be checked is an error."""
    suites = "".join(_suite(report) for report in verification.reports)
    cases = sum(max(1, len(report.checks)) for report in verification.reports)
    failures = sum(check.level == "FAIL" for report in verification.reports for check in report.checks)
    counts = f'tests="{cases}" failures="{failures}" errors="{verification.count("not checked")}"'
    return junit("reenact verify-replay", counts, suites)


def junit(tool: str, counts: str, suites: str) -> str:
    """A JUnit document of one of our tools, around suites that are written already."""
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="{tool}" {counts}>\n'
    return f"{head}{suites}</testsuites>\n"


def _suite(report: Report) -> str:
    failures = sum(check.level == "FAIL" for check in report.checks)
    errors = int(report.problem is not None)
    skipped = sum(check.status is Status.NOT_CHECKED for check in report.checks)
    name = in_markup(report.subject)
    cases = max(1, len(report.checks))
    counts = f'tests="{cases}" failures="{failures}" errors="{errors}" skipped="{skipped}"'
    return f'  <testsuite name="{name}" {counts}>\n{"".join(_cases(report, name))}  </testsuite>\n'


def _cases(report: Report, name: str) -> Iterator[str]:
    if report.problem is not None:
        message = f'<error type="{report.problem.kind}" message="{in_markup(report.problem.message)}"/>'
        yield f'    <testcase classname="{name}" name="sidecar">{message}</testcase>\n'
    elif not report.checks:
        yield f'    <testcase classname="{name}" name="sidecar"/>\n'
    for check in report.checks:
        body = ""
        lines = [in_markup(line.strip()) for line in check_lines(check)]
        detail = "\n".join(lines)
        if check.level == "FAIL":
            body = f'<failure type="{check.status.value}" message="{lines[0]}">{detail}</failure>'
        elif check.status is Status.NOT_CHECKED:
            body = f'<skipped message="{in_markup(check.detail)}"/>'
        elif check.level == "warn":
            body = f"<system-out>{detail}</system-out>"
        yield f'    <testcase classname="{name}" name="{in_markup(check.field)}">{body}</testcase>\n'


def verification_summary(verification: Verification) -> str:
    """Markdown for a step's summary: the count, and a table of what does not hold. Foreign text is inert in it."""
    lines = ["### Replay blocks", "", summary_line(verification), ""]
    rows = [row for report in verification.reports for row in _rows(report)]
    if rows:
        lines += ["| report | field | status | detail |", "|---|---|---|---|", *rows[:_MAX_ROWS]]
    if len(rows) > _MAX_ROWS:
        lines += ["", f"and {len(rows) - _MAX_ROWS} more"]
    return "\n".join(lines) + "\n\n"


def _rows(report: Report) -> Iterator[str]:
    name = in_markdown(report.subject)
    if report.problem is not None:
        yield f"| {name} | sidecar | **{report.problem.kind}** | {in_markdown(report.problem.message)} |"
    for check in report.checks:
        if check.level in ("ok", "note"):
            continue
        status = f"**{check.status.value}**" if check.level == "FAIL" else check.status.value
        detail = "; ".join(word for word in (check.found or check.path, check.detail) if word)
        if check.changed_by is not None:
            detail += f"; changed by {check.changed_by.id[:12]} on {check.changed_by.day}"
        yield f"| {name} | {in_markdown(check.field)} | {status} | {in_markdown(detail)} |"
