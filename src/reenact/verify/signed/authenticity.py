"""What is signed of a run, and by whom: the keys that are believed, and what they said beside the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from reenact.errors import DamagedRecord
from reenact.verify.capability import ISSUER, PURPOSES, KeyRing
from reenact.verify.payloads import Seen, Taken, check_erasures
from reenact.verify.report import Covers, Findings, Problem, Signature, Where
from reenact.verify.signed.erasures import SignedErasures
from reenact.verify.signed.keys import KeyHistory
from reenact.verify.signed.notes import RUN_CHECKPOINT, SEAL, VOTE, NoteRow, NoteSource, note_text, signs
from reenact.verify.signed.signed_note import NoteSignature, read_note, write_note
from reenact.verify.signed.trust import Trust, TrustedKey, verifier_key

if TYPE_CHECKING:
    from reenact.verify.journal import JournalCheck

NOTES: Final = "notes.jsonl"


class Signed:
    """Holds a run against the keys and the notes of its store. `notes` is None where nobody has looked for them."""

    def __init__(
        self,
        notes: NoteSource | None,
        findings: Findings,
        keys: Mapping[str, str] | None,
        trust: Trust,
        *,
        store_id: str | None = None,
    ) -> None:
        self._notes = notes
        self.keys = keys or {}
        """Its own, whoever believes them."""
        self._findings = findings
        self._of_bundle = store_id is None
        self._only = trust.only
        self._said: set[object] = set()
        """The stores in whose name the notes are signed that count."""
        self.history = KeyHistory(findings, store_id)
        if notes is not None:
            self.history.read(notes)
        self._lines = trust.of_any()
        self._here = self.history.trusted(trust.of_store(self.history.store_id))
        named = {kid: keys[0].public_key for kid, keys in self._lines.items()}
        named |= {kid: key.public_key for kid, key in self._here.items()}
        self._named = named if trust.only else {**named, **self.keys}
        self.ring = KeyRing(self._named, findings)
        self.ring.successions = self.history.successions
        self.ring.purposes = self._purposes
        is_trusted = lambda kid, store_id: self._trusted(kid, store_id) is not None  # noqa: E731
        self._erasures = SignedErasures(notes, self.history, self.ring, findings, is_trusted)
        self._seen: list[Seen] = []
        """Erasure records of a bundle, until its journal was read."""

    def _trusted(self, kid: str, store_id: object) -> TrustedKey | None:
        """As whom the reader trusts this key in what it signs for the store, which every signature names."""
        if store_id == self.history.store_id:
            return self._here.get(kid)
        return next((key for key in self._lines.get(kid, ()) if key.store_id in (None, store_id)), None)

    def _purposes(self, kid: str, store_id: object) -> frozenset[str]:
        if kid in self.keys and not self._only:
            return frozenset(PURPOSES)
        trusted = self._trusted(kid, store_id)
        return frozenset() if trusted is None else trusted.purposes

    def erasures(self, lines: Iterable[bytes], *, whole: bool) -> Taken:
        """What `check_erasures` gives. Who signed what a bundle has of them is asked once its journal was read."""
        erased = check_erasures(lines, self._findings, whole=whole, seen_at=self._seen)
        self._erasures.check_counts(self._seen, whole=whole)
        if whole:
            self._erasures.check_store(self._seen)
            self._seen = []
        return erased

    def end(self, check: JournalCheck) -> None:
        """What is known once the journal was read: of which store it is, and whose key went on with it."""
        if self._seen:
            self._erasures.check_part(self._seen, None if check.run is None else check.run.capability_key)
        self.ring.unknown += self._erasures.unsigned
        for taken in self.history.successions.get(check.run_id or "", ()):
            note = f"key replaced at commit {taken.commits}, not vouched for by the old key"
            self._findings.note(f"{note} ({taken.old_kid} was lost, {taken.new_kid} signs since)")
            if check.commits < taken.commits:
                what = f"the run's key was replaced at commit {taken.commits}, and the run ends before it"
                self._findings.add(Problem("KEY_HISTORY", what), Where(file=check.file, commit=check.commits or None))
            if self.ring.key(taken.new_kid, self.history.store_id) is None:
                self.ring.unknown += 1
        said = self._erasures.stores if self.history.beginning is None else {self.history.store_id}
        others = {f"{ISSUER}{each}" for each in said}
        if self._of_bundle and any({each} != others for each in self.ring.issuers if others):
            problem = Problem("KEY_HISTORY", "the notes are of another store than the run", None, min(others))
            self._findings.add(problem, Where(file=NOTES))

    @property
    def log_keys(self) -> dict[str, str]:
        """Whose heads of the store's log are believed."""
        return {kid: key for kid, key in self._named.items() if "log" in self._purposes(kid, self.store_id)}

    @property
    def store_id(self) -> object:
        """What the store calls itself, as far as that is known: of a bundle by its notes or its capabilities."""
        if self.history.store_id is not None:
            return self.history.store_id
        named = self._issuers or self._said
        return next(iter(named)) if len(named) == 1 else None

    @property
    def _issuers(self) -> set[object]:
        return {issuer.removeprefix(ISSUER) for issuer in self.ring.issuers}

    # -- the word on authenticity ----------------------------------------------------------------------------------

    def signature(self, check: JournalCheck) -> Signature:
        """What is signed of the run that was read, and by whom; what must be signed and is not is told."""
        if check.run is None:
            return Signature()
        for vote in check.votes:
            self._note_of(VOTE, vote, None)
        up_to = [
            at
            for digest, at in check.run_checkpoints.items()
            if self._note_of(RUN_CHECKPOINT, digest, self._kid(check, at))
        ]
        if check.seal is None:
            kid = self._kid(check, max(up_to, default=check.commits))
            return replace(
                self._by("part" if up_to else self._approvals, kid), commits=max(up_to, default=0), is_open=True
            )
        kid, told = self._kid(check, check.commits), self._findings.total
        if self._note_of(SEAL, check.seal.seal_digest, kid) is not None:
            return replace(self._by("run", kid), commits=check.commits)
        signs_here = any(self.ring.key(kid, store_id) is not None for store_id in self._issuers)
        is_due = self._notes is not None and self.ring.bound and signs_here
        if is_due and self._findings.total == told:
            what = f"key {kid} has not signed the seal: it was changed, or the note about it was taken away"
            self._findings.add(Problem("SEAL_NOT_SIGNED", what), Where(file=NOTES, commit=check.commits))
        return self._by(self._approvals, kid)

    def is_seal_note(self, data: bytes, seal_digest: str) -> bool:
        """Whether this says what the notes about the seal say; the ids of keys are checked where those are there."""
        rows = [row for row in (() if self._notes is None else self._notes.about(seal_digest)) if row.schema == SEAL]
        try:
            text, signatures = read_note(data)
        except DamagedRecord:
            return False
        return all(any(text == note_text(row) and self._is_line(each, row) for row in rows) for each in signatures)

    def _is_line(self, line: NoteSignature, row: NoteRow) -> bool:
        public_key = self.keys.get(str(row.kid))
        key = verifier_key(str(row.store_id), public_key or "")
        return (line.name, line.signature) == (key.name, row.signature) and (
            public_key is None or line.key_id == key.key_id
        )

    @property
    def _approvals(self) -> Covers:
        return "capabilities" if self.ring.verified else "nothing"

    def _kid(self, check: JournalCheck, commit: int) -> str:
        """The one key whose word counts in a commit of the run."""
        assert check.run is not None
        return self.ring.kid_at(check.run_id, check.run.capability_key, commit)

    def _note_of(self, schema: str, digest: str, kid: str | None) -> bool | None:
        """Whether the key has signed this: True, False where nothing says which bytes it has; None where it has not.

        Any key for None. A signature that is wrong is told.
        """
        found: bool | None = None
        for row in () if self._notes is None else self._notes.about(digest):
            if row.schema != schema or kid not in (None, row.kid) or not self._is_ours(row):
                continue
            self._said.add(row.store_id)
            key = self.ring.key(str(row.kid), row.store_id)
            if key is None:
                found = bool(found)
            elif signs(row, key):
                found = True
            else:
                what = f"the note about {schema} {digest} is not signed by the key {row.kid}"
                self._findings.add(Problem("NOTE_SIGNATURE", what), row.where)
        return found

    def _is_ours(self, row: NoteRow) -> bool:
        """What was signed for another store says nothing here."""
        return (self._issuers or {self.history.store_id or row.store_id}) == {row.store_id}

    def _by(self, covers: Covers, kid: str) -> Signature:
        of: Literal["folder", "store"] = "folder" if self._of_bundle else "store"
        nobody = Signature(covers=covers, of=of, unapproved=self.ring.unapproved)
        if covers == "nothing":
            return nobody
        purpose = "capabilities" if covers == "capabilities" else "seals"
        trusted = self._trusted(kid, self.store_id)
        if trusted is not None and purpose in trusted.purposes:
            return replace(nobody, by="trusted_key", kid=kid, trusted_as=trusted.name)
        is_own = not self._only and kid in self.keys and self.ring.key(kid, self.store_id) is not None
        return replace(nobody, by="own_key" if is_own else "untrusted_key", kid=kid)


def seal_note(source: NoteSource, seal_digest: str, keys: Mapping[str, str]) -> bytes | None:
    """The notes about a seal as one that other programs read: with the name and id of each key that is there."""
    signatures, text = [], b""
    for row in source.about(seal_digest):
        if row.schema == SEAL and str(row.kid) in keys and isinstance(row.signature, bytes):
            key = verifier_key(str(row.store_id), keys[str(row.kid)])
            text = text or note_text(row)
            if text == note_text(row):
                signatures.append(NoteSignature(key.name, key.key_id, row.signature))
    return write_note(text, signatures) if signatures else None
