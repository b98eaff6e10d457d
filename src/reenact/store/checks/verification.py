"""One run of a store, verified where it lies: the verifier over its rows, and what only the rows can tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from reenact.store.checks.anchoring import RunLog, with_own_witnesses
from reenact.store.checks.cut_tail import CutTail
from reenact.store.checks.derived import Difference, compare_derived
from reenact.store.checks.heads import Heads
from reenact.store.checks.late_effects import LateEffects
from reenact.store.checks.payload_order import Making
from reenact.store.checks.rebuild import Rebuilt
from reenact.store.compression import Codec
from reenact.store.copying.views import There, evidence_of
from reenact.store.envelopes import StoredEnvelopes
from reenact.store.evidence import Evidence, PayloadPlace, RunEvidence, find_run, said_id
from reenact.store.naming import read_lines
from reenact.store.open import open_evidence
from reenact.verify.log.anchoring import FILE, NOBODY, STAMP_FILE, Believed
from reenact.verify.report import Aspect, Finding, Report, Where, shown, unread
from reenact.verify.signed.notes import SIGNING
from reenact.verify.signed.trust import Trust
from reenact.verify.verifier import verify_lines

TABLE_OF = {
    "journal.jsonl": "commits",
    "erasures.jsonl": "erasures",
    "keys.json": "keys",
    "seal.json": "seals",
    "notes.jsonl": "notes",
    FILE: "log_checkpoints",
    STAMP_FILE: "log_timestamps",
}
RANK = {"keys": 0, "erasures": 1, "commits": 2, "payloads": 3}


@dataclass(frozen=True, slots=True)
class RunVerification:
    """`report` has the verdicts on the evidence, `differences` what derived tables say otherwise."""

    report: Report
    differences: tuple[Difference, ...]

    @property
    def exit_code(self) -> int:
        return 1 if self.differences else self.report.exit_code


def verify_run(
    url: str | None, run: str, trusted: Trust | Mapping[str, str] | None = None, believed: Believed = NOBODY
) -> RunVerification:
    """Verify the run whose id begins with `run` in the store at `url`. Nothing is repaired or written."""
    with open_evidence(url) as evidence:
        return verify_evidence(evidence, run, trusted, believed)


def verify_evidence(
    evidence: Evidence, run: str, trusted: Trust | Mapping[str, str] | None = None, believed: Believed = NOBODY
) -> RunVerification:
    """Verify the run whose id begins with `run`. `trusted` are the keys to believe instead of those on record,
    `believed` says whose word counts for the log, instead of the witnesses that the store itself names."""
    altered = evidence.altered_tables()
    if altered:
        return RunVerification(nothing_read(altered), ())
    found, _ = find_run(evidence, run)
    return _RunCheck(evidence, found, trusted, believed).verify()


def nothing_read(altered: list[tuple[str, str]]) -> Report:
    """A view in the place of a table says whatever its maker likes, and may never come to an end."""
    findings = tuple(
        Finding(
            code="EVIDENCE_DAMAGED",
            breaks="integrity",
            what=shown(says),
            expected=None,
            got=None,
            where=Where(file=table),
        )
        for table, says in altered
    )
    return unread(findings, "nothing was read: tables of the store are not those that reenact made")


class _RunCheck:
    def __init__(
        self, evidence: Evidence, run: RunEvidence, trusted: Trust | Mapping[str, str] | None, believed: Believed
    ) -> None:
        self.evidence = evidence = evidence_of(evidence, run.number)
        self.believed = believed
        self.trusted = trusted
        self.heads = Heads(evidence, run.number)
        self.run = run
        self.rebuilt = Rebuilt()
        self.envelopes = StoredEnvelopes(run)
        self.erasures = evidence.erasures()
        self.made: dict[int, Making] = {}
        self.findings: list[Finding] = []
        self.notes: list[str] = [evidence.says] if isinstance(evidence, There) else []
        self.repacked: list[str] = []

    def verify(self) -> RunVerification:
        keys = self.evidence.keys()
        report = verify_lines(
            self.bodies(),
            self.envelopes,
            erasures=[row.body for row in self.erasures],
            whole_erasures=True,
            keys=keys,
            trusted=self.trusted,
            notes=self.evidence.notes(),
            store_id=self.evidence.store_id(),
            key_secret=self.evidence.key_secret(),
            log=RunLog(self.evidence, self.run.number),
            believed=with_own_witnesses(self.evidence, self.believed),
        )
        self.check_heads(report)
        self.check_key(keys)
        self.check_issuer(report.issuers)
        self.check_cut_tail()
        self.check_payload_places()
        self.check_erasure_rows()
        self.check_late_effects()
        self.check_guards()
        self.note_repacked()
        self.check_cells()
        differences = compare_derived(self.evidence, self.run, self.rebuilt, self.envelopes)
        tail = CutTail(self.run, self.rebuilt)
        self.notes += tail.notes()
        return RunVerification(self.merged(report), tuple(tail.split(differences)))

    def bodies(self) -> Iterator[bytes]:
        """The bodies that can be read; a row that cannot, or that lies elsewhere than its body says, is told."""
        expected, codec = 1, Codec()
        for row in self.run.commits():
            where = Where(file="commits", commit=row.n)
            if row.n > expected:
                missing = Where(file="commits", commit=expected)
                self.add("COMMIT_NUMBER", "integrity", f"commit {expected} is missing", missing, expected, row.n)
            expected = row.n + 1
            if row.body is None:
                self.add("EVIDENCE_DAMAGED", "integrity", row.problem or "", where)
                continue
            said = next(read_lines(row.body), {}).get("n")
            if said != row.n:
                self.add("COMMIT_NUMBER", "integrity", "the row lies at another place", where, row.n, said)
            if not row.same:
                self.add("EVIDENCE_DAMAGED", "integrity", "the body is not the one whose digest lies beside it", where)
            if codec.pack_body(row.body) != row.stored:
                self.repacked.append(f"commit {row.n}")
            self.rebuilt.take(row.n, row.body)
            self.heads.take(row)
            if self.rebuilt.is_session:
                self.made[row.n] = Making(row.body)
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

    def check_heads(self, report: Report) -> None:
        """The store's key vouches for each commit, and has signed the seal."""
        run = self.rebuilt.run
        of_run = ("", None) if run is None else (str(run.get("run_id")), run.get("capability_key"))
        for n, what in self.heads.problems(*of_run):
            self.add("HEAD_NOT_AUTHENTIC", "authenticity", what, Where(file="commits", commit=n))
        self.notes += self.heads.notes()
        began = any(row.schema == SIGNING for row in self.evidence.notes().with_records())
        if self.heads.has_macs and not began:
            what = "commits are vouched for, and nothing says by whom: the notes of the store were taken away"
            self.add("KEY_HISTORY", "authenticity", what, Where(file="notes"))
        told = any(finding.code == "SEAL_NOT_SIGNED" for finding in report.findings)
        if self.rebuilt.seal is not None and self.heads.is_due and report.signature.covers != "run" and not told:
            where = Where(file="notes", commit=self.rebuilt.last_commit)
            self.add("SEAL_NOT_SIGNED", "authenticity", "no key of the store has signed the seal", where)

    def check_key(self, keys: dict[str, str]) -> None:
        """The store has the key that its runs are signed with; in a bundle it may be left out, here it may not."""
        kid = None if self.rebuilt.run is None else self.rebuilt.run.get("capability_key")
        if isinstance(kid, str) and kid not in keys:
            where = Where(file="keys", row=f"kid {kid}")
            self.add("KEY_MISSING", "authenticity", f"there is no row for the run's key {kid}", where)

    def check_issuer(self, issuers: tuple[str, ...]) -> None:
        """The store is still the one that its capabilities name."""
        store_id = self.evidence.store_id()
        for issuer in issuers:
            if issuer != f"reenact:{store_id}":
                where = Where(file="store", row="key store_id")
                what = "the capabilities of the run name another store as their issuer"
                self.add("STORE_MISMATCH", "integrity", what, where, issuer, f"reenact:{store_id}")

    def check_cells(self) -> None:
        """Cells that were met and cannot hold what their column is for."""
        for cell in self.evidence.damaged:
            where = Where(file=cell.table, row=shown(cell.row), commit=cell.commit)
            self.add("EVIDENCE_DAMAGED", "integrity", cell.what, where)

    def check_cut_tail(self) -> None:
        """The seals table remembers that the run was sealed."""
        place = self.run.seal_place()
        if place is not None and self.rebuilt.seal is None:
            where = Where(file="commits", commit=self.rebuilt.last_commit + 1)
            what = "the run was sealed, and its commits end without the seal: the tail was cut"
            self.add("SEAL_MISSING", "completeness", what, where, place.own.seal_digest)

    def check_payload_places(self) -> None:
        """Each envelope lies once, with the commit that first names it, in the order of their making, without gaps."""
        shared = {(row.payload_id, cell_in_hex(row.commitment)) for row in self.run.shared_payloads()}
        named_in = self.rebuilt.named_in
        absent = Counter(n for commitment, n in named_in.items() if commitment not in self.envelopes.places)
        lying: dict[int, list[tuple[PayloadPlace, str]]] = {}
        unnamed = 0
        for place, commitment in self.run.payload_places():
            first = named_in.get(commitment)
            if first is None and self.rebuilt.seal is None and place.n > self.rebuilt.last_commit:
                continue  # of a tail that was cut
            lying.setdefault(place.n, []).append((place, commitment))
            unnamed += first is None
            if first not in (None, place.n) and (place.payload_id, commitment) not in shared:
                what = f"payload {commitment} lies with another commit than the one that names it"
                self.misplaced(what, place, first, place.n)
            if self.envelopes.places[commitment] != place:
                self.misplaced(f"payload {commitment} lies there twice", place, None, place.payload_id)
        for n, rows in lying.items():
            last = rows[-1][0]
            if last.k + 1 - len(rows) > absent[n]:
                self.misplaced("payloads lie with a gap that nothing explains", last, len(rows) - 1, last.k)
            for chain in self.order_of(n):
                self.check_order(chain, rows)
        if unnamed:
            self.notes.append(f"stored payloads that no record names: {unnamed}")

    def order_of(self, n: int) -> list[list[str]]:
        if not self.rebuilt.is_session:
            return [self.rebuilt.order.get(n, [])]
        return self.made[n].chains() if n in self.made else []

    def check_order(self, made: list[str], rows: list[tuple[PayloadPlace, str]]) -> None:
        stored = {commitment for _, commitment in rows}
        expected = [commitment for commitment in made if commitment in stored]
        got = [(place, commitment) for place, commitment in rows if commitment in made]
        for wanted, (place, found) in zip(expected, got, strict=False):
            if wanted != found:
                self.misplaced("payloads lie in another order than that of their making", place, wanted, found)
                return

    def misplaced(self, what: str, place: PayloadPlace, expected: object, got: object) -> None:
        where = Where(file="payloads", row=place.row, commit=place.n)
        self.add("PAYLOAD_MISPLACED", "integrity", what, where, expected, got)

    def check_erasure_rows(self) -> None:
        for number, row in enumerate(self.erasures, start=1):
            where = Where(file="erasures", row=f"id {row.row_id}", line=number)
            if row.row_id != number:
                self.add("ERASURE_CHAIN", "integrity", "the number of the row", where, number, row.row_id)
            if row.run_no is None:
                continue  # told as a damaged cell
            said = next(read_lines(row.body), {}).get("run_id")
            run = self.evidence.run(row.run_no)
            owner = said_id(run, unchanged=True)
            if owner is not None and said != owner:
                self.add("ERASURE_CHAIN", "integrity", "the run that the row belongs to", where, owner, said)
            elif not run.is_there():
                self.add("ERASURE_CHAIN", "integrity", "the run that the row belongs to is not there", where)

    def check_late_effects(self) -> None:
        late = LateEffects(self.evidence.late_effects(), self.run.number, self.rebuilt, self.envelopes)
        erased = {row.run_no for row in self.erasures}
        for what, where in late.problems(erased):
            self.add("LATE_EFFECT_MISSING", "integrity", what, where)
        self.notes += late.notes()

    def check_guards(self) -> None:
        """Nothing is broken when a trigger is gone or does nothing; but somebody did that."""
        self.notes += [shown(says) for says in self.evidence.altered_guards()]

    def note_repacked(self) -> None:
        """Compression has more than one way to say the same; whoever stored another one changed no content."""
        places = [*self.repacked, *(f"payload {commitment}" for commitment in sorted(self.envelopes.repacked))]
        self.notes += [f"{place}: the same content, stored in other bytes than this version writes" for place in places]

    # -- one report ------------------------------------------------------------------------------------------------

    def merged(self, report: Report) -> Report:
        """The verifier's findings and ours, in the order of the run."""
        theirs = [replace(finding, where=self.in_tables(finding)) for finding in report.findings]
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

    def in_tables(self, finding: Finding) -> Where:
        """A place of a bundle as a place of the store."""
        where = finding.where
        place = self.envelopes.places.get(where.payload or "")
        if finding.code.startswith("PAYLOAD_") and place is not None:
            return replace(where, file="payloads", row=place.row, line=None, offset=None)
        if where.file == "erasures.jsonl" and where.line is not None:
            return replace(where, file="erasures", row=f"id {self.erasures[where.line - 1].row_id}")
        return replace(where, file=TABLE_OF.get(str(where.file), where.file))


def in_order_of_the_run(finding: Finding) -> tuple[bool, int, bool, int]:
    """What cannot be read, and the name of another store, come first, for all else may follow from it; then what says
    which payloads were erased, commits, and payloads, by commit; then the rest."""
    where = finding.where
    return (
        finding.code not in ("EVIDENCE_DAMAGED", "STORE_MISMATCH"),
        RANK.get(str(where.file), len(RANK)),
        where.commit is None,
        where.commit or 0,
    )


def cell_in_hex(cell: object) -> str:
    """The bytes of a cell, whether it is a blob or a text."""
    raw = cell.encode("utf-8", "surrogateescape") if isinstance(cell, str) else cell
    return raw.hex() if isinstance(raw, bytes) else ""
