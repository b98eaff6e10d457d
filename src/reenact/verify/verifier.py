"""Entry points of the verifier: `verify_bundle` for a folder that somebody sent, `verify_lines` for a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Final

from msgspec import structs

from reenact.values.canonical import canonicalize
from reenact.values.digest import digest
from reenact.verify.capability import KeyRing
from reenact.verify.files.listing import Files, Listing, Payloads, contradictions, payloads_in
from reenact.verify.files.packed import PackedPayloads
from reenact.verify.files.zipped import files_at
from reenact.verify.folder import PARENTS
from reenact.verify.journal import JournalCheck
from reenact.verify.lines import MAX_LINE_BYTES, fit, lines_of, read_canonical
from reenact.verify.log.anchoring import FILE, NOBODY, STAMP_FILE, Anchoring, Believed, FileSource, LogSource
from reenact.verify.payloads import PayloadCheck, PayloadSource, Taken
from reenact.verify.plan import is_whole
from reenact.verify.report import Counts, Findings, Problem, Report, Signature, Verdict, Where
from reenact.verify.shapes import Kid, Manifest
from reenact.verify.signed.authenticity import Signed
from reenact.verify.signed.notes import FolderNotes, NoteSource
from reenact.verify.signed.trust import Trust
from reenact.verify.views import RECEIPT, REPLAY, Views, compare_receipt, compare_replay

JOURNAL: Final = "journal.jsonl"
VERDICTS: Final = ("holds", "open", "absent", "broken")


def verify_lines(
    bodies: Iterable[bytes],
    payloads: PayloadSource | None,
    *,
    erasures: Iterable[bytes] = (),
    whole_erasures: bool = False,
    keys: Mapping[str, str] | None = None,
    trusted: Trust | Mapping[str, str] | None = None,
    notes: NoteSource | None = None,
    store_id: str | None = None,
    key_secret: bytes | None = None,
    expect_seal: bytes | None = None,
    expect_head: str | None = None,
    log: LogSource | None = None,
    believed: Believed = NOBODY,
) -> Report:
    """Verify one run from its commit bodies, in order; they are read once and not kept.

    `payloads` is None where values were left out on purpose. `erasures` are canonical records, one each;
    `whole_erasures` says that they are a store's complete chain. `keys` are those on record, `trusted` those that the
    reader trusts; `notes` is what was signed beside the journal in the store `store_id`. With the store's
    `key_secret` idempotency keys are computed again, without it only their form is checked. `expect_seal` is a copy of
    the seal that was kept elsewhere, `expect_head` the SHA-256 of the last body as its keeper remembers it: with them a
    cut tail shows. `log` is the store's, in which whoever is `believed` saw the seal. Bad
    evidence never raises; it is a finding.
    """
    findings = Findings()
    signed = Signed(notes, findings, keys, Trust.of(trusted), store_id=store_id)
    signed.history.check_on_record(keys or {})
    erased = signed.erasures(erasures, whole=whole_erasures)
    payload_check = PayloadCheck(payloads, erased, findings)
    check = JournalCheck(payload_check, signed.ring, findings, key_secret=key_secret)
    feed_bodies(check, bodies)
    check.end()
    signed.end(check)
    if expect_head is not None and check.head != expect_head:
        problem = Problem("HEAD_MISMATCH", "the digest of the last commit", expect_head, check.head)
        findings.add(problem, Where(file=JOURNAL, commit=check.commits))
    if expect_seal is not None:
        _compare_seal(expect_seal.removesuffix(b"\n"), check, findings, "the kept seal")
    return _conclude(check, findings, signed, log or FileSource(None), believed)


def feed_bodies(check: JournalCheck, bodies: Iterable[bytes]) -> None:
    """Give the lines of each commit's body to `check`, until it has seen enough."""
    for body in bodies:
        starts = True
        for raw in lines_of(body):
            if not check.line(raw, starts_body=starts):
                return
            starts = False


def verify_bundle(path: Path, *, keys: Trust | Mapping[str, str] | None = None, believed: Believed = NOBODY) -> Report:
    """Verify the bundle in folder `path`, or in the zip of one.

    `keys` are public keys that you trust, {kid: key}; without them the bundle's own are used. `believed` says whose
    word counts for the log that the run is in. Raises StoreUnavailable only when `path` is no folder or zip that can
    be opened and read. Nothing outside of it is read, nothing is unpacked.
    """
    with closing(files_at(path)) as folder:
        return verify_files(folder, keys=keys, believed=believed)


def verify_files(files: Files, *, keys: Trust | Mapping[str, str] | None = None, believed: Believed = NOBODY) -> Report:
    """The same, of files that are open."""
    return _Bundle(files, Trust.of(keys), believed).verify()


class _Bundle:
    """Steps 1 to 8, over one folder, or over one that lies in it: of a run that is continued."""

    def __init__(self, folder: Files, trusted: Trust, believed: Believed, *, is_parent: bool = False) -> None:
        self.folder = folder
        self.believed = believed
        self.trusted = trusted
        self.is_parent = is_parent
        self.findings = Findings()
        self.manifest: Manifest | None = None
        self.continues: str | None = None
        """The parent that its run record names."""
        self.digests: dict[str, str] = {}  # of the files that were read whole
        self.unread: set[str] = set()  # told already

    def verify(self) -> Report:
        # Step 1: the manifest.
        self._read_manifest()
        # Step 2: what the journal is checked with: keys and erasures.
        self.notes = FolderNotes(self._lines_of("notes.jsonl"), self.findings)
        signed = Signed(self.notes, self.findings, self._keys(), self.trusted)
        ring, erased = signed.ring, signed.erasures(self._erasures(), whole=False)
        source = payloads_in(self.folder, self.manifest, self.findings)
        payloads = PayloadCheck(source, erased, self.findings)
        # Steps 3 to 5: the journal.
        check = JournalCheck(payloads, ring, self.findings)
        self._journal(check)
        signed.end(check)
        # Step 6: the copies beside the journal.
        self._seal_copy(check)
        self._seal_note(signed, check)
        self._plan_copy(check, payloads)
        self._views(source, erased)
        # Step 7: the runs that this one continues.
        self.continues = None if check.run is None else check.run.parent_run
        continued = self._parents()
        log = FileSource(self._read(FILE), self._read(STAMP_FILE))
        # Step 8: the folder against the manifest.
        self._folder(payloads, source)
        if source is not None:
            source.close()
        if self.manifest is not None and check.run_id not in (None, self.manifest.run_id):
            problem = Problem("RUN_MISMATCH", "the manifest's run_id", check.run_id, self.manifest.run_id)
            self.findings.add(problem, Where(file="manifest.json"))
        report = _conclude(check, self.findings, signed, log, self.believed)
        return report if continued is None else weaker(report, continued)

    def _parents(self) -> Report | None:
        """Each is a bundle of its own, from the same store; the one of which least is signed."""
        files = {} if self.manifest is None else self.manifest.files
        named = {name.split("/")[1]: name for name in files if name.startswith(PARENTS)}
        self.unread.update(named.values())
        run_id, least = None if self.is_parent else self.continues, None
        while run_id in named and (folder := self.folder.parent(run_id)) is not None:
            with closing(folder):
                parent = _Bundle(folder, self.trusted, self.believed, is_parent=True)
                report = parent.verify()
            self._take(parent, report, run_id, named.pop(run_id))
            least = report if least is None else weaker(least, report)
            run_id = parent.continues
        for run_id, name in named.items():
            folder = self.folder.parent(run_id)
            if folder is not None:  # else it is told as missing
                folder.close()
                what = f"run {run_id} is none that this one continues, by what is here of those"
                self.findings.add(Problem("FILE_EXTRA", what), Where(file=name))
        return least

    def _take(self, parent: _Bundle, report: Report, run_id: str, name: str) -> None:
        """What was found in the bundle of a parent counts as found here."""
        where, place = Where(file=name), name.removesuffix("manifest.json")
        assert self.manifest is not None
        got = parent.digests.get("manifest.json")
        if got != self.manifest.files[name]:
            self.findings.add(Problem("FILE_CHANGED", f"the digest of {name}", self.manifest.files[name], got), where)
        if report.run_id != run_id:
            self.findings.add(Problem("RUN_MISMATCH", "the run that is continued", run_id, report.run_id), where)
        if parent.digests.get("keys.json") != self.digests.get("keys.json"):
            problem = Problem("KEY_HISTORY", "the keys of a run that is continued are not those of this bundle")
            self.findings.add(problem, Where(file=f"{place}keys.json"))
        self.findings.take(report, place)
        self.findings.note(f"run {run_id}, which it continues, came along: {report.counts.commits} commits")

    def _read(self, name: str) -> bytes | None:
        data = self.folder.read(name)
        if isinstance(data, Problem):
            self.findings.add(data, Where(file=name))
            self.unread.add(name)
            return None
        if data is not None:
            self.digests[name] = sha256(data).hexdigest()
        return data

    def _document(self, name: str, code: str = "FILE_MALFORMED") -> Any:
        """The value of a canonical JSON file that ends with a newline; None where there is none."""
        data = self._read(name)
        if data is None:
            return None
        read = read_canonical(data.removesuffix(b"\n"), name)
        if isinstance(read, Problem):
            self.findings.add(read.of(code), Where(file=name))
            return None
        if not data.endswith(b"\n") or read.value is None:
            self.findings.add(Problem(code, f"{name} is null, or does not end with a newline"), Where(file=name))
            return None
        return read.value

    def _read_manifest(self) -> None:
        value = self._document("manifest.json", "MANIFEST_MALFORMED")
        where = Where(file="manifest.json")
        if value is None:
            if "manifest.json" not in self.digests.keys() | self.unread:
                self.findings.add(Problem("MANIFEST_MISSING", "the bundle has no manifest.json"), where)
            return
        manifest = fit(value, Manifest, "MANIFEST_MALFORMED")
        if isinstance(manifest, Problem):
            self.findings.add(manifest, where)
            return
        self.manifest = manifest
        recomputed = digest({key: item for key, item in value.items() if key != "digest"})
        if manifest.digest != recomputed:
            problem = Problem("MANIFEST_DIGEST", "the digest of the manifest", recomputed, manifest.digest)
            self.findings.add(problem, where)
        for problem in contradictions(manifest):
            self.findings.add(problem, where)

    def _keys(self) -> Mapping[str, str] | None:
        value = self._document("keys.json")
        if value is None:
            return None
        keys = fit(value, dict[Kid, str], "FILE_MALFORMED")
        if isinstance(keys, Problem):
            self.findings.add(keys, Where(file="keys.json"))
            return None
        found: dict[str, str] = keys
        return found

    def _erasures(self) -> list[bytes]:
        return self._lines_of("erasures.jsonl")

    def _lines_of(self, name: str) -> list[bytes]:
        data = self._read(name)
        if data is None:
            return []
        if not data.endswith(b"\n"):
            problem = Problem("EVIDENCE_TORN_TAIL", f"{name} does not end with a newline")
            self.findings.add(problem, Where(file=name))
        return data.removesuffix(b"\n").split(b"\n")

    def _journal(self, check: JournalCheck) -> None:
        stream = self.folder.open(JOURNAL)
        if stream is None or isinstance(stream, Problem):
            problem = stream or Problem("FILE_MISSING", "the bundle has no journal.jsonl")
            self.findings.add(problem, Where(file=JOURNAL))
            self.unread.add(JOURNAL)
            return
        whole = sha256()
        with stream:
            for raw in _lines(stream, whole.update):
                if not check.line(raw):
                    self.findings.note(f"reading stopped at line {check.lines} of {JOURNAL}")
                    self.unread.add(JOURNAL)
                    break
            else:
                self.digests[JOURNAL] = whole.hexdigest()
        check.end()

    def _seal_copy(self, check: JournalCheck) -> None:
        value = self._document("seal.json")
        if value is not None:
            _compare_seal(canonicalize(value), check, self.findings, "seal.json")
        elif check.seal is not None and "seal.json" not in self.digests:
            problem = Problem("FILE_MISSING", "the journal is sealed, and seal.json is not there")
            self.findings.add(problem, Where(file="seal.json"))

    def _seal_note(self, signed: Signed, check: JournalCheck) -> None:
        """What other programs read says what `notes.jsonl` says; absent in bundles of before."""
        data = self._read("seal.note")
        if check.seal is None:
            if data is not None or self.notes.has_seal:
                what = "a note about the run's seal is there, and the journal has no seal"
                self.findings.add(Problem("SEAL_MISSING", what), Where(file="notes.jsonl"))
        elif data is not None and not signed.is_seal_note(data, check.seal.seal_digest):
            what = "seal.note is not the note about the seal in notes.jsonl, in the form of other programs"
            self.findings.add(Problem("NOTE_MALFORMED", what), Where(file="seal.note"))

    def _plan_copy(self, check: JournalCheck, payloads: PayloadCheck) -> None:
        value, where = self._document("plan.json"), Where(file="plan.json")
        known, run = check.plan_document, check.run
        if value is None and known is not None and "plan.json" not in self.digests:
            problem = Problem("FILE_MISSING", "the plan's payload is there, and plan.json is not")
            self.findings.add(problem, where)
        if value is None or (known is not None and canonicalize(value) == canonicalize(known)):
            return
        whole = known is not None and run is not None and run.kind == "session"
        if not whole or not is_whole(value, known, lambda named: payloads.value(named, where)):
            problem = Problem("PLAN_MISMATCH", "plan.json is not the plan whose payload the journal names")
            self.findings.add(problem, where)

    def _views(self, source: Payloads | None, erased: Taken) -> None:
        """REPLAY.jsonl and RECEIPT.json, made again from a journal that is whole."""
        with ExitStack() as opened:
            log, receipt, journal = (self._stream(name, opened) for name in (REPLAY, RECEIPT, JOURNAL))
            if source is None or journal is None or (log is None and receipt is None):
                return
            if self.findings.broken - {"authenticity"}:
                self.findings.note(f"{REPLAY} and {RECEIPT} were not held against a journal that is broken")
                return
            views = Views(_lines(journal, len), source, erased.archived)
            expected = views.replay()
            differs = None if log is None else compare_replay(expected, log)
            if differs is not None:
                self.findings.add(*differs)
            for _ in expected:  # the rest, for the receipt
                pass
            problem = None if receipt is None else compare_receipt(views.receipt(), receipt)
            if problem is not None:
                self.findings.add(problem, Where(file=RECEIPT))

    def _stream(self, name: str, opened: ExitStack) -> BinaryIO | None:
        found = self.folder.open(name)
        return None if found is None or isinstance(found, Problem) else opened.enter_context(found)

    def _folder(self, payloads: PayloadCheck, source: Payloads | None) -> None:
        named = None if self.manifest is None else self.manifest.files
        packed = source if isinstance(source, PackedPayloads) else None
        if packed is not None:
            self.digests |= packed.digests
            self.unread.update(name for name in named or () if name.endswith(".gz") and name not in packed.digests)
        listing = Listing(self.folder, self.findings, named, self.digests, self.unread, payloads)
        listing.check()
        if packed is not None:
            listing.check_packed(packed)


def _lines(stream: BinaryIO, seen: Callable[[bytes], object]) -> Iterator[bytes]:
    """Lines with their newlines; one that is too long comes as its first bytes, and nothing after it."""
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        seen(raw)
        yield raw


def _compare_seal(kept: bytes, check: JournalCheck, findings: Findings, what: str) -> None:
    if check.seal is None or canonicalize(check.seal) != kept:
        problem = Problem("SEAL_MISSING", f"{what} is there, and the journal does not end with that seal")
        findings.add(problem, Where(file="seal.json", commit=check.commits or None))


def _conclude(check: JournalCheck, findings: Findings, signed: Signed, log: LogSource, believed: Believed) -> Report:
    ring, payloads = check.ring, check.payloads
    signature = signed.signature(check)
    leaf = None if check.seal is None else canonicalize(check.seal)
    anchoring, anchor = Anchoring(believed, signed.log_keys, signed.store_id, findings).judge(log, leaf)
    if "anchoring" in findings.broken:  # by a run that this one continues, too
        anchoring = "contradicted"
    if check.run is not None and check.run.kind == "trace":
        findings.note("what another runtime calls a capability is not checked: who may sign it is not known here")
    if ring.unknown > ring.unapproved:
        findings.note(f"no key was there for {ring.unknown - ring.unapproved} of the signatures: not checked")
    if ring.unapproved:
        many = "capability is" if ring.unapproved == 1 else "capabilities is"
        findings.note(f"the key of {ring.unapproved} {many} not trusted for capabilities")
    if payloads.withheld:
        findings.note(f"{payloads.withheld} payloads were left out of the export: not checked")
    return Report(
        run_id=check.run_id,
        integrity="broken" if "integrity" in findings.broken else "holds",
        completeness=_completeness(check, findings),
        authenticity=_authenticity(ring, findings, signature),
        seal_is_signed=signature.covers == "run" and signature.by != "untrusted_key",
        signature=signature,
        anchoring=anchoring,
        anchor=anchor,
        first_break=findings.kept[0] if findings.kept else None,
        findings=tuple(findings.kept),
        broken_in_total=findings.total,
        notes=tuple(findings.notes),
        counts=Counts(
            commits=check.commits,
            lines=check.lines,
            traces=len(check.traces),
            attempts=check.attempts,
            payloads=payloads.named,
            present=payloads.present,
            erased=payloads.erased,
            archived=payloads.archived,
            lost=payloads.lost,
            withheld=payloads.withheld,
            signatures=ring.verified,
        ),
        status=None if check.seal is None else check.seal.status,
        head=check.head,
        seal_digest=None if check.seal is None else check.seal.seal_digest,
        prev_store_seal=None if check.seal is None else check.seal.prev_store_seal,
        issuers=tuple(sorted(ring.issuers)),
    )


def _completeness(check: JournalCheck, findings: Findings) -> Verdict:
    if "completeness" in findings.broken or (check.seal is not None and not check.seal_is_sound):
        return "broken"
    return "open" if check.seal is None else "holds"


def _authenticity(ring: KeyRing, findings: Findings, signature: Signature) -> Verdict:
    if "authenticity" in findings.broken:
        return "broken"
    if ring.unknown or signature.by in (None, "untrusted_key"):
        return "absent"
    if signature.covers == "run":
        return "holds"
    return "open" if signature.is_open else "absent"


def weaker(report: Report, other: Report) -> Report:
    """The report, with the word of the one of which less is known on its end and on who signed it: it rests on both."""
    if (report.completeness, other.completeness) == ("holds", "open"):  # what is continued was ended first
        report = structs.replace(report, completeness="open")
    if VERDICTS.index(other.authenticity) > VERDICTS.index(report.authenticity):
        return structs.replace(report, authenticity=other.authenticity, signature=other.signature)
    is_own = report.authenticity == other.authenticity and other.signature.by == "own_key"
    return structs.replace(report, signature=other.signature) if is_own else report
