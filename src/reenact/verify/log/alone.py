"""A proof that came without its run: whether it leads from a seal to a head that somebody outside saw."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from reenact.verify.lines import fit, read_canonical
from reenact.verify.log.anchoring import Anchoring, Believed, FileSource
from reenact.verify.report import Counts, Findings, Problem, Report, Where
from reenact.verify.shapes import Seal


def verify_proof(proof: bytes, seal: bytes, keys: Mapping[str, str], believed: Believed, file: str) -> Report:
    """Only anchoring is judged; of the run nothing but its seal is there."""
    findings = Findings()
    read = read_canonical(seal.removesuffix(b"\n"), "the seal")
    record = read if isinstance(read, Problem) else fit(read.value, Seal, "FILE_MALFORMED")
    if isinstance(record, Problem):
        findings.add(Problem("FILE_MALFORMED", record.what), Where(file="seal.json"))
    verdict, anchor = Anchoring(believed, keys, None, findings).judge(
        FileSource(proof), None if isinstance(record, Problem) else seal.removesuffix(b"\n"), file
    )
    known = None if isinstance(record, Problem) else record
    report = Report(
        run_id=None,
        integrity="broken" if "integrity" in findings.broken else "open",
        completeness="open",
        authenticity="absent",
        anchoring=verdict,
        anchor=anchor,
        first_break=findings.kept[0] if findings.kept else None,
        findings=tuple(findings.kept),
        broken_in_total=findings.total,
        notes=tuple(findings.notes),
        counts=Counts(),
        status=None,
        head=None,
        seal_digest=None,
        prev_store_seal=None,
    )
    return report if known is None else replace(report, run_id=known.run_id, seal_digest=known.seal_digest)
