"""A verification of evidence for build services: SARIF and JUnit, by the writers that `verify-replay` has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.cli.screens.evidence_words import ASPECTS
from reenact.provenance.verify.report_ci import junit
from reenact.provenance.verify.report_escape import in_markup
from reenact.provenance.verify.report_json import sarif, sarif_result
from reenact.verify.render import place
from reenact.verify.report import CODES
from reenact.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reenact.cli.screens.evidence_words import Evidence

TOOL = "reenact verify"
ABSENT, DERIVED = "REQUIRED_AND_ABSENT", "DERIVED"
RULES = {
    ABSENT: "What was required is absent.",
    DERIVED: "A table of the store is not what its commits say.",
}


def evidence_sarif(evidence: Evidence) -> str:
    """SARIF 2.1.0: a result for each finding, placed at its file and line."""
    results = []
    for finding in evidence.report.findings:
        file = "/".join(part for part in (evidence.source.rstrip("/"), finding.where.file) if part)
        message = f"{finding.what} ({place(finding.where)})"
        results.append(sarif_result(finding.code, "error", message, file, finding.where.line or 1))
    for other in evidence.differences:
        message = f"{other.table}, {other.row}: {other.what}"
        results.append(sarif_result(DERIVED, "error", message, evidence.source))
    results += [sarif_result(ABSENT, "error", f"{name} is absent", evidence.source) for name in evidence.required]
    rules = {code: f"{meaning[:1].upper()}{meaning[1:]}." for code, (_, meaning) in CODES.items()} | RULES
    return sarif(TOOL, __version__, rules, results)


def evidence_junit(evidence: Evidence) -> str:
    """JUnit XML: a suite for the run, a case for each verdict; what is open or absent is skipped, unless required."""
    cases = list(_cases(evidence))
    failures, skipped = sum("<failure" in case for case in cases), sum("<skipped" in case for case in cases)
    name = in_markup(evidence.source)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="{skipped}"'
    suite = f'  <testsuite name="{name}" {counts}>\n{"".join(cases)}  </testsuite>\n'
    return junit(TOOL, f'tests="{len(cases)}" failures="{failures}" errors="0"', suite)


def _cases(evidence: Evidence) -> Iterator[str]:
    required = {"signature": "authenticity", "trust": "authenticity", "anchor": "anchoring"}
    missing = {required[name] for name in evidence.required}
    for claim in evidence.claims:
        told = [f"{each.code}: {each.what} ({place(each.where)})" for each in evidence.report.findings
                if each.breaks == claim.aspect]  # fmt: skip
        body = ""
        message = in_markup(f"{claim.verdict}: {claim.rests_on}")
        if claim.verdict in ("broken", "contradicted") or claim.aspect in missing:
            detail = "\n".join(in_markup(line) for line in told)
            kind = "absent" if claim.verdict == "holds" else claim.verdict
            body = f'<failure type="{in_markup(kind)}" message="{message}">{detail}</failure>'
        elif claim.verdict != "holds":
            body = f'<skipped message="{message}"/>'
        yield _case(evidence, claim.aspect, body)
    if evidence.differences:
        lines = "\n".join(in_markup(f"{each.table}, {each.row}: {each.what}") for each in evidence.differences)
        yield _case(
            evidence, "derived", f'<failure type="differ" message="from what the commits say">{lines}</failure>'
        )


def _case(evidence: Evidence, aspect: str, body: str) -> str:
    assert aspect in (*ASPECTS, "derived")
    return f'    <testcase classname="{in_markup(evidence.source)}" name="{aspect}">{body}</testcase>\n'
