"""A report as a person reads it in a terminal: verdicts first, then where the first break is."""

from __future__ import annotations

from reenact.verify.report import Anchor, Finding, Report, Signature, Where, shown

_MEANING = {
    ("integrity", "holds"): "every digest and link recomputes",
    ("integrity", "broken"): "the evidence contradicts itself",
    ("completeness", "holds"): "the seal's counts and roots are those of the lines",
    ("completeness", "open"): "no seal: the tail may have been cut",
    ("completeness", "broken"): "something is missing or added",
    ("authenticity", "broken"): "a signature is missing, or does not fit its key",
    ("anchoring", "absent"): "no outside witness",
    ("anchoring", "contradicted"): "the log is not what somebody outside saw of it, or was said to be",
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
    if aspect == "anchoring" and report.anchor is not None and verdict != "contradicted":
        return anchor_in_words(report.anchor) or _MEANING["anchoring", "absent"]
    if aspect == "authenticity" and verdict != "broken":
        return _signed(report.signature, verdict)
    return _MEANING.get((aspect, verdict), "")


def anchor_in_words(anchor: Anchor) -> str:
    """`(2 of 2 witnesses, 2026-11-16T12:00:00Z)`; empty where nobody who is known saw the run."""
    parts = []
    if anchor.witnesses:
        seen = f"{len(anchor.witnesses)} of {anchor.known} witness{'es' if anchor.known > 1 else ''}"
        parts.append(seen if anchor.since is None else f"{seen}, {anchor.since}")
    if anchor.kept:
        parts.append(f"the head of size {max(anchor.kept)} that you kept")
    parts += [f"time stamp of {stamped}" for stamped in anchor.stamped]
    return f"({'; '.join(parts)})" if parts else ""


def _signed(signature: Signature, verdict: str) -> str:
    """What is signed and by whom, in words of which none stands for another."""
    if signature.covers == "nothing" and signature.unapproved:
        return "capabilities only, by a key that is not trusted for capabilities"
    if signature.covers == "nothing":
        return "no signature could be checked"
    if signature.by == "untrusted_key":
        return f"signed by {signature.kid}, which is none of the keys that are trusted for it"
    if signature.covers == "capabilities":
        later = "what came of the calls is signed with the seal" if signature.is_open else "results are nobody's word"
        return f"capabilities only, {_who(signature)}; {later}"
    if verdict == "absent" and signature.unapproved:
        return f"{_who(signature)}; the capabilities by a key that is not trusted for capabilities"
    if verdict == "absent":
        return "not every signature could be checked"
    if signature.covers == "part":
        return f"{_who(signature)}, up to commit {signature.commits}; the rest waits for the seal"
    return _who(signature)


def _who(signature: Signature) -> str:
    if signature.by == "own_key":
        return f"by the {signature.of}'s own key {signature.kid}, which nobody vouched for"
    name = "trusted" if signature.trusted_as is None else f'trusted as "{shown(signature.trusted_as)}"'
    return f"signed by {signature.kid} ({name})"


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
