"""A verification for programs: JSON, and SARIF for services that show findings beside the code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from reenact.provenance.verify.model import Check, Report, Status, Verification
from reenact.provenance.verify.report_escape import SERVICE_MESSAGE, printable
from reenact.provenance.yaml.javascript import pretty

_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_BEYOND_ASCII = re.compile(r"[^\x20-\x7e\n]")

_RULES: Final = {
    Status.DRIFTED: "The input is not the one that the run read.",
    Status.MISSING: "The input is nowhere under the repository's root.",
    Status.ERASED: "The input was deleted from the repository.",
    Status.UNPARSEABLE: "The input no longer parses as YAML or JSON.",
    Status.UNDECIDED: "The input uses YAML that is not decided; its hash is unknown.",
    Status.REFUSED: "The recorded path may not be read.",
    Status.UNAVAILABLE: "The recorded commit cannot be read here.",
    Status.DIFFERS: "The report's replay block does not say what its sidecar says.",
    Status.INCONSISTENT: "The sidecar contradicts itself or the repository's history.",
    Status.IGNORED: "The sidecar has a field that this version does not know.",
    Status.ABSENT: "The report shows no replay block.",
    Status.UNKNOWN_COMMIT: "The recorded commit is not in this clone.",
}
_UNCHECKED_RULE: Final = ("not-checked", "The report's sidecar is missing or cannot be used.")


def as_json(value: object) -> str:
    """JSON in ASCII with two-space indents: whatever a string holds, terminals and build services see nothing in it
    to act on."""
    text = SERVICE_MESSAGE.sub(r"#\\u0023", pretty(value))
    return _BEYOND_ASCII.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def verification_json(verification: Verification) -> str:
    """Everything that is known, as one JSON document."""
    return as_json(
        {
            "reports": [_report(report) for report in verification.reports],
            "summary": {
                "reports": len(verification.reports),
                "hold": verification.count("holds"),
                "warned": verification.warned,
                "drifted": verification.count("drifted"),
                "not_checked": verification.count("not checked"),
            },
            "exit_code": verification.exit_code,
        }
    )


def _report(report: Report) -> dict[str, object]:
    problem = report.problem
    return {
        "report": report.subject,
        "sidecar": report.sidecar,
        "verdict": report.verdict,
        **report.facts,
        "problem": None if problem is None else {"kind": problem.kind, "message": problem.message},
        "checks": [_check(check) for check in report.checks],
    }


def _check(check: Check) -> dict[str, object]:
    change = check.changed_by
    fields: dict[str, object] = {"field": check.field, "status": check.status.value, "level": check.level}
    optional = {
        "detail": check.detail or None,
        "path": check.path,
        "found": check.found,
        "expected": check.expected,
        "actual": check.actual,
        "changed_by": change and {"commit": change.id, "day": change.day, "subject": change.subject},
    }
    return fields | {name: value for name, value in optional.items() if value is not None}


def verification_sarif(verification: Verification, version: str) -> str:
    """SARIF 2.1.0: a result for each field that fails or warns, placed at the report's sidecar."""
    rules = {_rule_id(status): text for status, text in _RULES.items()} | dict([_UNCHECKED_RULE])
    results = [result for report in verification.reports for result in _results(report)]
    return sarif("reenact verify-replay", version, rules, results)


def sarif(tool: str, version: str, rules: Mapping[str, str], results: list[dict[str, object]]) -> str:
    """A SARIF document of one run of one of our tools."""
    described = [{"id": rule, "shortDescription": {"text": text}} for rule, text in rules.items()]
    driver = {"name": tool, "version": version, "rules": described}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return as_json({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule_id(status: Status) -> str:
    return status.value.replace(" ", "-")


def _results(report: Report) -> list[dict[str, object]]:
    found = []
    if report.problem is not None:
        message = f"{report.problem.kind}: {report.problem.message}"
        found.append(sarif_result(_UNCHECKED_RULE[0], "error", message, report.sidecar))
    for check in report.checks:
        if check.level in ("warn", "FAIL"):
            words = (check.field, check.status.value, check.found or check.path or "", check.detail)
            message = ": ".join(word for word in words if word)
            if check.changed_by is not None:
                message += f"; changed by {check.changed_by.id[:12]}"
            level = "error" if check.level == "FAIL" else "warning"
            found.append(sarif_result(_rule_id(check.status), level, message, report.sidecar))
    return found


def sarif_result(rule: str, level: str, message: str, path: str, line: int = 1) -> dict[str, object]:
    """One finding, placed at a line of a file."""
    uri = quote(path, safe="/", errors="surrogateescape")
    location = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}
    return {"ruleId": rule, "level": level, "message": {"text": printable(message)}, "locations": [location]}
