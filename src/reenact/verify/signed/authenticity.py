"""What is signed of a run, and by whom: the keys that are believed, and what they said beside the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from reenact.errors import DamagedRecord
from reenact.verify.capability import KeyRing
from reenact.verify.payloads import check_erasures
from reenact.verify.report import Covers, Findings, Problem, Signature, Where
from reenact.verify.signed.erasures import SignedErasures
from reenact.verify.signed.keys import KeyHistory
from reenact.verify.signed.notes import RUN_CHECKPOINT, SEAL, VOTE, NoteRow, NoteSource, note_text, signs
from reenact.verify.signed.signed_note import NoteSignature, read_note, write_note
from reenact.verify.signed.trust import PURPOSES, Trust, verifier_key

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
        self.history = KeyHistory(findings, store_id)
        if notes is not None:
            self.history.read(notes)
        self._trusted = self.history.trusted(trust.of_store(self.history.store_id))
        believed = {kid: key.public_key for kid, key in self._trusted.items()}
        self._believed = believed if trust.only else {**believed, **self.keys}
        self.ring = KeyRing(self._believed, findings)
        self.ring.successions = self.history.successions
        if trust.only:
            self.ring.not_for = {purpose: self._not_for(purpose) for purpose in PURPOSES}

    def _not_for(self, purpose: str) -> frozenset[str]:
        return frozenset(kid for kid, key in self._trusted.items() if purpose not in key.purposes)

    def erasures(self, lines: Iterable[bytes], *, whole: bool) -> dict[str, str]:
        """What `check_erasures` gives, and who signed it."""
        seen: list[tuple[str, Where]] = []
        erased = check_erasures(lines, self._findings, whole=whole, seen_at=seen)
        check = SignedErasures(self._notes, self.history, self.ring, self._findings)
        check.check(seen, whole=whole)
        self.ring.unknown += check.unsigned
        return erased

    def end(self, check: JournalCheck) -> None:
        """What is known once the journal was read: of which store it is, and whose key went on with it."""
        for taken in self.history.successions.get(check.run_id or "", ()):
            note = f"key replaced at commit {taken.commits}, not vouched for by the old key"
            self._findings.note(f"{note} ({taken.old_kid} was lost, {taken.new_kid} signs since)")
            if check.commits < taken.commits:
                what = f"the run's key was replaced at commit {taken.commits}, and the run ends before it"
                self._findings.add(Problem("KEY_HISTORY", what), Where(file=check.file, commit=check.commits or None))
            if self.ring.key(taken.new_kid) is None:
                self.ring.unknown += 1
        said = {f"reenact:{self.history.store_id}"}
        if self._of_bundle and self.history.beginning is not None and not self.ring.issuers <= said:
            problem = Problem("KEY_HISTORY", "the notes are of another store than the run", None, min(said))
            self._findings.add(problem, Where(file=NOTES))

    @property
    def log_keys(self) -> dict[str, str]:
        """Whose heads of the store's log are believed."""
        not_for = self._not_for("log") if self._only else frozenset()
        return {kid: key for kid, key in self._believed.items() if kid not in not_for}

    @property
    def store_id(self) -> object:
        """What the store calls itself, as far as that is known: of a bundle by its notes or its capabilities."""
        issuers = sorted(self.ring.issuers)
        named = issuers[0].removeprefix("reenact:") if len(issuers) == 1 else None
        return named if self.history.store_id is None else self.history.store_id

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
        is_due = self._notes is not None and self.ring.bound and self.ring.key(kid) is not None
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
            key = self.ring.key(str(row.kid))
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
        stores = self.ring.issuers or {f"reenact:{self.history.store_id or row.store_id}"}
        return stores == {f"reenact:{row.store_id}"}

    def _by(self, covers: Covers, kid: str) -> Signature:
        of: Literal["folder", "store"] = "folder" if self._of_bundle else "store"
        if covers == "nothing":
            return Signature(of=of)
        purpose = "capabilities" if covers == "capabilities" else "seals"
        trusted = self._trusted.get(kid)
        if trusted is not None and purpose in trusted.purposes:
            return Signature(covers=covers, by="trusted_key", kid=kid, trusted_as=trusted.name, of=of)
        is_known = not self._only and self.ring.key(kid) is not None
        return Signature(covers=covers, by="own_key" if is_known else "untrusted_key", kid=kid, of=of)


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
