"""A report as SARIF 2.1.0, which code hosts and editors show beside the code."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from reenact.lint.findings import Finding, Place, Report, Severity
from reenact.lint.output import pretty
from reenact.lint.rules import RULES, Rule

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_ORDER: Final = {rule: index for index, rule in enumerate(RULES)}


def as_sarif(report: Report, version: str) -> str:
    """One run with every rule described, one result for each finding, and what could not be read as a notification."""
    run = {
        "tool": {
            "driver": {
                "name": "reenact lint",
                "semanticVersion": version,
                "rules": [_rule(rule) for rule in RULES.values()],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not report.unreadable,
                "toolExecutionNotifications": [
                    {
                        "level": "error",
                        "message": {"text": f"cannot be read: {one.reason}"},
                        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(one.file)}}}],
                    }
                    for one in report.unreadable
                ],
            }
        ],
        "results": [_result(finding) for finding in report.findings],
    }
    return pretty({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": _ORDER[finding.rule],
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [_location(finding.place)],
    }
    if finding.related:
        result["relatedLocations"] = [
            {**_location(place), "message": {"text": message}} for place, message in finding.related
        ]
    return result


def _location(place: Place) -> dict[str, object]:
    region = {"startLine": place.line, "startColumn": place.column, "endLine": max(place.line, place.end_line)}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(place.file)}, "region": region}}


def _uri(file: str) -> str:
    """A path as a URI reference: relative ones stay relative to where lint was called."""
    quoted = quote(file.encode("utf-8", "surrogateescape"))
    return f"file://{quoted}" if quoted.startswith("/") else quoted
