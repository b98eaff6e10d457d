"""A report as a person reads it in a terminal: verdicts first, then where the first break is."""

from __future__ import annotations

from reenact.verify.report import Finding, Report, Where

_MEANING = {
    ("integrity", "holds"): "every digest and link recomputes",
    ("integrity", "broken"): "the evidence contradicts itself",
    ("completeness", "holds"): "the seal's counts and roots are those of the lines",
    ("completeness", "open"): "no seal: the tail may have been cut",
    ("completeness", "broken"): "something is missing or added",
    ("authenticity", "holds"): "every capability is signed by its key",
    ("authenticity", "absent"): "no signature could be checked",
    ("authenticity", "broken"): "a signature does not fit its key",
    ("anchoring", "absent"): "no outside witness",
}


def human(report: Report) -> list[str]:
    """Lines of plain text, safe to print: whatever the evidence holds, none of it can make a line of its own."""
    lines = [f"run           {report.run_id or 'unknown'}" + (f" ({report.status})" if report.status else "")]
    for aspect in ("integrity", "completeness", "authenticity", "anchoring"):
        verdict = getattr(report, aspect)
        lines.append(f"{aspect:<13} {verdict:<7} {_meaning(report, aspect, verdict)}".rstrip())
    if report.seal_digest is not None and report.integrity == report.completeness == "holds":
        lines.append(f"seal          {report.seal_digest}")
    lines.append(f"read          {_counts(report)}")
    lines += [f"note          {note}" for note in report.notes]
    if report.first_break is not None:
        lines += _broken(report.first_break)
    if report.broken_in_total > 1:
        rest = report.broken_in_total - 1
        lines.append(f"and           {rest} more finding{'s' if rest > 1 else ''}; --json shows the first hundred")
    return lines


def in_words(report: Report, aspect: str) -> str:
    """What a verdict rests on, in a few words."""
    return _meaning(report, aspect, getattr(report, aspect))


def _meaning(report: Report, aspect: str, verdict: str) -> str:
    if aspect == "integrity" and verdict == "broken" and is_only_beside(report):
        return "something lies there that is not part of the evidence"
    if aspect == "authenticity" and verdict == "holds" and not report.counts.signatures:
        return "the seal is signed by the store's key"
    if aspect == "authenticity" and verdict == "absent" and report.counts.signatures:
        return "not every signature could be checked"
    return _MEANING.get((aspect, verdict), "")


def is_only_beside(report: Report) -> bool:
    """Nothing is wrong but that something was put beside the evidence."""
    return bool(report.findings) and all(finding.code == "FILE_EXTRA" for finding in report.findings)


def _counts(report: Report) -> str:
    counts = report.counts
    parts = [
        f"{counts.commits} commits",
        f"{counts.traces} traces",
        f"{counts.attempts} attempts",
        f"{counts.present} of {counts.payloads} payloads",
    ]
    for number, name in (
        (counts.erased, "erased"),
        (counts.archived, "archived"),
        (counts.lost, "lost"),
        (counts.withheld, "left out"),
    ):
        if number:
            parts.append(f"{number} {name}")
    return ", ".join(parts)


def _broken(finding: Finding) -> list[str]:
    lines = [f"first break   {place(finding.where)}", f"              {finding.code}: {finding.what}"]
    if finding.expected is not None:
        lines.append(f"              expected {finding.expected}")
    if finding.got is not None:
        lines.append(f"              got      {finding.got}")
    return lines


def place(where: Where) -> str:
    """`journal.jsonl, commit 3, line 12, byte 8123, trace …, step fetch`, as far as it is known."""
    named = (
        ("", where.file),
        ("", where.row),
        ("commit ", where.commit),
        ("line ", where.line),
        ("byte ", where.offset),
        ("trace ", where.trace_id),
        ("step ", where.step_id),
        ("payload ", where.payload),
    )
    return ", ".join(f"{name}{value}" for name, value in named if value is not None) or "the evidence as a whole"
