"""One run of a store, verified where it lies: the verifier over its rows, and what only the rows can tell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from reenact.store.derived import Difference, compare_derived
from reenact.store.evidence import Evidence, StoredEnvelopes
from reenact.store.migrations import migrations
from reenact.store.naming import read_lines
from reenact.store.rebuild import Rebuilt
from reenact.verify.report import Aspect, Finding, Report, Where, shown
from reenact.verify.verifier import verify_lines

TABLE_OF = {"journal.jsonl": "commits", "erasures.jsonl": "erasures", "keys.json": "keys", "seal.json": "seals"}
_TRIGGER = re.compile(r"CREATE TRIGGER (\w+)")


@dataclass(frozen=True, slots=True)
class RunVerification:
    """`report` has the verdicts on the evidence, `differences` what derived tables say otherwise."""

    report: Report
    differences: tuple[Difference, ...]

    @property
    def exit_code(self) -> int:
        return 1 if self.differences else self.report.exit_code


def verify_run(path: str, run: str) -> RunVerification:
    """Verify the run whose id begins with `run` in the store file `path`. Nothing is repaired or written."""
    with Evidence(path) as evidence:
        run_no, _ = evidence.find(run)
        return _RunCheck(evidence, run_no).verify()


class _RunCheck:
    def __init__(self, evidence: Evidence, run_no: int) -> None:
        self.evidence = evidence
        self.run_no = run_no
        self.rebuilt = Rebuilt()
        self.envelopes = StoredEnvelopes(evidence, run_no)
        self.erasures = evidence.erasures()
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self.recoded: list[str] = []

    def verify(self) -> RunVerification:
        keys = self.evidence.keys()
        report = verify_lines(
            self.bodies(),
            self.envelopes,
            erasures=[body for _, _, body in self.erasures],
            whole_erasures=True,
            keys=keys,
        )
        self.check_key(keys)
        self.check_cut_tail()
        self.check_payload_places()
        self.check_erasure_rows()
        self.check_late_effects()
        self.check_guards()
        self.note_recoded()
        differences = compare_derived(self.evidence, self.run_no, self.rebuilt, self.envelopes)
        return RunVerification(self.merged(report), tuple(differences))

    def bodies(self) -> Iterator[bytes]:
        """The bodies that can be read; a row that cannot, or that lies elsewhere than its body says, is told."""
        for row in self.evidence.commits(self.run_no):
            where = Where(file="commits", commit=row.n)
            if row.body is None:
                self.add("EVIDENCE_DAMAGED", "integrity", row.problem or "", where)
                continue
            said = next(read_lines(row.body), {}).get("n")
            if said != row.n:
                self.add("COMMIT_NUMBER", "integrity", "the row lies at another place", where, row.n, said)
            if not row.same:
                self.add("EVIDENCE_DAMAGED", "integrity", "the body is not the one whose digest lies beside it", where)
            if row.recoded:
                self.recoded.append(f"commit {row.n}")
            self.rebuilt.take(row.n, row.body)
            yield row.body

    def add(
        self, code: str, breaks: Aspect, what: str, where: Where, expected: object = None, got: object = None
    ) -> None:
        self.findings.append(
            Finding(
                code=code,
                breaks=breaks,
                what=shown(what),
                expected=None if expected is None else shown(expected),
                got=None if got is None else shown(got),
                where=where,
            )
        )

    # -- what only the rows can tell -------------------------------------------------------------------------------

    def check_key(self, keys: dict[str, str]) -> None:
        """The store has the key that its runs are signed with; in a bundle it may be left out, here it may not."""
        kid = None if self.rebuilt.run is None else self.rebuilt.run.get("capability_key")
        if isinstance(kid, str) and kid not in keys:
            self.add("KEY_MISSING", "authenticity", f"there is no row for the run's key {kid}", Where(file="keys"))

    def check_cut_tail(self) -> None:
        """The seals table remembers that the run was sealed."""
        rows = self.evidence.query("SELECT seal_digest FROM seals WHERE run_no = ?", (self.run_no,))
        if rows and self.rebuilt.seal is None:
            where = Where(file="commits", commit=self.rebuilt.last_commit + 1)
            what = "the run was sealed, and its commits end without the seal: the tail was cut"
            self.add("SEAL_MISSING", "completeness", what, where, rows[0][0])

    def check_payload_places(self) -> None:
        """Each envelope lies with the commit that first names it, in the order of their making, without gaps."""
        shared = set(
            self.evidence.query(
                "SELECT payload_id, lower(hex(commitment)) FROM shared_payloads WHERE run_no = ?", (self.run_no,)
            )
        )
        named_in = self.rebuilt.named_in
        absent = Counter(n for commitment, n in named_in.items() if commitment not in self.envelopes.places)
        lying: dict[int, list[tuple[int, str]]] = {}
        unnamed = 0
        for place, commitment in self.evidence.payload_places(self.run_no):
            lying.setdefault(place.n, []).append((place.k, commitment))
            first = named_in.get(commitment)
            unnamed += first is None
            if first not in (None, place.n) and (place.payload_id, commitment) not in shared:
                what = f"payload {commitment} lies with another commit than the one that names it"
                self.misplaced(what, place.n, first, place.n)
        for n, rows in lying.items():
            if rows[-1][0] + 1 - len(rows) > absent[n]:
                self.misplaced("payloads lie with a gap that nothing explains", n, len(rows) - 1, rows[-1][0])
            if not self.rebuilt.is_session:
                self.check_order(n, [commitment for _, commitment in rows])
        if unnamed:
            self.notes.append(f"stored payloads that no record names: {unnamed}")

    def check_order(self, n: int, stored: list[str]) -> None:
        ordered = self.rebuilt.order.get(n, [])
        expected = [commitment for commitment in ordered if commitment in stored]
        got = [commitment for commitment in stored if commitment in ordered]
        for wanted, found in zip(expected, got, strict=False):
            if wanted != found:
                self.misplaced("payloads lie in another order than that of their making", n, wanted, found)
                return

    def misplaced(self, what: str, n: int, expected: object, got: object) -> None:
        self.add("PAYLOAD_MISPLACED", "integrity", what, Where(file="payloads", commit=n), expected, got)

    def check_erasure_rows(self) -> None:
        for number, (row_id, run_no, body) in enumerate(self.erasures, start=1):
            where = Where(file="erasures", line=number)
            if row_id != number:
                self.add("ERASURE_CHAIN", "integrity", "the number of the row", where, number, row_id)
            record = next(read_lines(body), {})
            owner = self.evidence.run_id_at(run_no)
            if owner is not None and record.get("run_id") != owner:
                self.add(
                    "ERASURE_CHAIN", "integrity", "the run that the row belongs to", where, owner, record.get("run_id")
                )

    def check_late_effects(self) -> None:
        """What was taken over from an executor that had lost its lease is still there as it was left."""
        rows = self.evidence.query(
            "SELECT trace_id, body FROM late_effects WHERE run_no = ? ORDER BY id", (self.run_no,)
        )
        left = {(str(trace_id), bytes(body) if isinstance(body, bytes) else b"") for trace_id, body in rows}
        for trace_id, commitment in self.rebuilt.late:
            envelope = self.envelopes.get(commitment)
            if envelope is not None and (trace_id, envelope[32:]) not in left:
                where = Where(file="late_effects", trace_id=trace_id)
                self.add("LATE_EFFECT_MISSING", "integrity", "what the run took over is not among them", where)
        for trace_id, _ in left:
            if trace_id not in {known for known, _, _ in self.rebuilt.traces.values()}:
                where = Where(file="late_effects", trace_id=shown(trace_id))
                self.add("LATE_EFFECT_MISSING", "integrity", "it belongs to no call of the run", where)

    def check_guards(self) -> None:
        """Nothing is broken when a trigger is gone; but somebody took it off."""
        wanted = {name for _, script in migrations() for name in _TRIGGER.findall(script)}
        there = {row[0] for row in self.evidence.query("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
        for name in sorted(wanted - there):
            self.notes.append(f"the guard {name} is not in the database: something took it off")

    def note_recoded(self) -> None:
        """Compression has more than one way to say the same; whoever stored another one changed no content."""
        places = [*self.recoded, *(f"payload {commitment}" for commitment in sorted(self.envelopes.recoded))]
        if places:
            others = f" and {len(places) - 1} others" if len(places) > 1 else ""
            self.notes.append(f"{places[0]}{others}: the same content, stored in other bytes than this version writes")

    # -- one report ------------------------------------------------------------------------------------------------

    def merged(self, report: Report) -> Report:
        """The verifier's findings and ours, in the order of the run."""
        theirs = [replace(finding, where=in_tables(finding.where)) for finding in report.findings]
        findings = sorted([*self.findings, *theirs], key=in_order_of_the_run)
        broken = {finding.breaks for finding in self.findings}
        return replace(
            report,
            integrity="broken" if "integrity" in broken else report.integrity,
            completeness="broken" if "completeness" in broken else report.completeness,
            authenticity="broken" if "authenticity" in broken else report.authenticity,
            first_break=findings[0] if findings else None,
            findings=tuple(findings),
            broken_in_total=report.broken_in_total + len(self.findings),
            notes=(*report.notes, *self.notes),
        )


def in_order_of_the_run(finding: Finding) -> tuple[bool, int]:
    """By commit; what belongs to none comes behind, since it may follow from what does."""
    return finding.where.commit is None, finding.where.commit or 0


def in_tables(where: Where) -> Where:
    """A place of a bundle as a place of the store."""
    return replace(where, file=TABLE_OF.get(str(where.file), where.file))
