"""A report as text, JSON, or SARIF 2.1.0, which code hosts show beside the code; the same bytes for the same report."""

from __future__ import annotations

from collections import Counter
from typing import Final
from urllib.parse import quote

import msgspec

from reenact.lint.findings import RULES, Finding, Place, Report, Rule, Severity, Unreadable

_SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def as_text(report: Report) -> str:
    """One line for each finding, in the form that editors and terminals turn into links, and a summary."""
    lines = [_line(finding) for finding in report.findings]
    return "\n".join(_printable(line) for line in [*lines, summary(report)]) + "\n"


def _line(finding: Finding) -> str:
    place = finding.place
    severity = "" if finding.severity is Severity.ERROR else f"[{finding.severity.word}] "
    return f"{place.file}:{place.line}:{place.column}: {finding.rule} {severity}{finding.message}"


def summary(report: Report) -> str:
    files = _count(len(report.checked), "file")
    if report.unreadable:
        files += f", {len(report.unreadable)} could not be read"
    if not report.findings:
        return f"nothing found in {files}"
    counts = Counter(finding.severity for finding in report.findings)
    parts = [_count(counts[severity], severity.word) for severity in sorted(counts, reverse=True)]
    return f"{', '.join(parts)} in {files}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _printable(line: str) -> str:
    """A file's name cannot forge a second line, or speak to the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)


def as_json(report: Report, fail_on: Severity = Severity.WARNING) -> str:
    """The report as one JSON object. Its shape is described in the reference, and only grows."""
    document = {
        "exit_code": report.exit_code(fail_on),
        "checked": [_text(file) for file in report.checked],
        "findings": [_finding(finding) for finding in report.findings],
        "unreadable": [{"file": _text(one.file), "reason": one.reason} for one in report.unreadable],
    }
    return _pretty(document)


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "file": _text(finding.place.file),
        "line": finding.place.line,
        "column": finding.place.column,
        "end_line": finding.place.end_line,
        "rule": finding.rule,
        "severity": finding.severity.word,
        "message": finding.message,
        "related": [
            {"file": _text(place.file), "line": place.line, "message": message} for place, message in finding.related
        ],
    }


def _text(file: str) -> str:
    """A file's name for JSON; what is no text in it is written with escapes."""
    return file.encode("utf-8", "backslashreplace").decode()


def as_sarif(report: Report, version: str) -> str:
    """One run with every rule described, one result for each finding, and what could not be read as a notification."""
    rules = [_rule(rule) for rule in RULES.values()]
    notifications = [
        {"level": "error", "message": {"text": f"cannot be read: {one.reason}"}, "locations": [_location(one)]}
        for one in report.unreadable
    ]
    run = {
        "tool": {"driver": {"name": "reenact lint", "semanticVersion": version, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not report.unreadable, "toolExecutionNotifications": notifications}],
        "results": [_result(finding) for finding in report.findings],
    }
    return _pretty({"$schema": _SARIF, "version": "2.1.0", "runs": [run]})


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "defaultConfiguration": {"level": rule.severity.word},
    }


def _result(finding: Finding) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": list(RULES).index(finding.rule),
        "level": finding.severity.word,
        "message": {"text": finding.message},
        "locations": [_location(finding.place)],
    }
    if finding.related:
        result["relatedLocations"] = [
            {**_location(place), "message": {"text": message}} for place, message in finding.related
        ]
    return result


def _location(place: Place | Unreadable) -> dict[str, object]:
    """The file as a URI reference, relative to where lint was called unless it was named in full; and where in it."""
    quoted = quote(place.file.encode("utf-8", "surrogateescape"))
    location: dict[str, object] = {
        "artifactLocation": {"uri": f"file://{quoted}" if quoted.startswith("/") else quoted}
    }
    if isinstance(place, Place):
        location["region"] = {"startLine": place.line, "startColumn": place.column, "endLine": place.end_line}
    return {"physicalLocation": location}


def _pretty(document: object) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
