"""The keys of a store, from the first on: each vouched for by the one before it, or put in the place of a lost one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from reenact.verify.capability import Succession
from reenact.verify.report import Findings, Problem, Where
from reenact.verify.signed.notes import (
    LeaseBroken,
    NoteRow,
    NoteSource,
    Replacement,
    Rotation,
    SealedErasures,
    Signing,
    decoded_key,
    records,
    signs,
)
from reenact.verify.signed.trust import TrustedKey

MOST_REPLACEMENTS: Final = 1000
"""Of one run's key: each of its commits and approvals is held against all of them."""


@dataclass(slots=True)
class KeyHistory:
    """What the notes about keys say, as far as they are signed."""

    findings: Findings
    store_id: object = None
    """Of a bundle that of its first note."""
    beginning: Signing | None = None
    keys: dict[str, Ed25519PublicKey] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    rotations: list[Rotation] = field(default_factory=list)
    heirs: list[tuple[str, str, bool]] = field(default_factory=list)
    """(key, the one that took over from it, whether it vouched for that one), in order."""
    begun_by: str | None = None
    """The key that signed the beginning."""
    successions: dict[str, list[Succession]] = field(default_factory=dict)
    """By run: where another key took over from one that was lost."""
    sealed: list[tuple[NoteRow, SealedErasures]] = field(default_factory=list)

    def read(self, source: NoteSource) -> KeyHistory:
        for row, record in records(source, self.findings):
            self.store_id = row.store_id if self.store_id is None else self.store_id
            if row.store_id != self.store_id:
                self._broken(row, "a note is of another store", self.store_id, row.store_id)
            elif isinstance(record, Signing):
                self._begin(row, record)
            elif isinstance(record, Rotation | Replacement):
                self._follow(row, record)
            elif isinstance(record, SealedErasures):
                self.sealed.append((row, record))
            elif isinstance(record, LeaseBroken) and not signs(row, self.keys.get(str(row.kid))):
                what = f"that a lease of run {record.run_id} was broken is not signed by a key of the store"
                self.findings.add(Problem("NOTE_SIGNATURE", what), row.where)
        return self

    def _begin(self, row: NoteRow, record: Signing) -> None:
        if self.beginning is not None:
            self._broken(row, "what signs for the store has two beginnings")
            return
        self.beginning = record
        for kid, text in record.keys.items():
            self._add(row, kid, text)
        if not signs(row, self.keys.get(str(row.kid))):
            self._broken(row, "the beginning of what is signed is not signed by one of its keys")
        else:
            self.begun_by = str(row.kid)

    def _follow(self, row: NoteRow, record: Rotation | Replacement) -> None:
        name = "rotation" if isinstance(record, Rotation) else "replacement"
        if self.beginning is None or record.old_kid not in self.keys:
            self._broken(row, f"the {name} of a key that never signed here", None, record.old_kid)
            return
        new = decoded_key(record.new_key)
        if new is None or new[0] != record.new_kid:
            self._broken(row, f"the {name} names a key that is not the one of its kid", record.new_kid)
            return
        signer = record.old_kid if isinstance(record, Rotation) else record.new_kid
        key = self.keys[record.old_kid] if isinstance(record, Rotation) else new[1]
        if row.kid != signer or not signs(row, key):
            self._broken(row, f"the {name} to key {record.new_kid} is not signed by {signer}", signer, row.kid)
            return
        self._add(row, record.new_kid, record.new_key)
        self.heirs.append((record.old_kid, record.new_kid, isinstance(record, Rotation)))
        if isinstance(record, Rotation):
            self.rotations.append(record)
            return
        for run_id, commits, head in record.runs:
            found = self.successions.setdefault(run_id, [])
            if len(found) == MOST_REPLACEMENTS:
                self._broken(row, f"the key of run {run_id} was replaced more than {MOST_REPLACEMENTS} times")
                return
            found.append(Succession(commits, head, record.old_kid, record.new_kid))

    def _add(self, row: NoteRow, kid: str, text: str) -> None:
        key = decoded_key(text)
        if key is None or key[0] != kid:
            self._broken(row, "a key is not the one of its kid", kid, None if key is None else key[0])
        else:
            self.keys[kid], self.texts[kid] = key[1], text

    def _broken(self, row: NoteRow, what: str, expected: object = None, got: object = None) -> None:
        self.findings.add(Problem("KEY_HISTORY", what, expected, got), row.where)

    # -- what follows ----------------------------------------------------------------------------------------------

    def check_on_record(self, keys: Mapping[str, str]) -> None:
        """Every key that a store has on record is one that somebody vouched for."""
        for kid in sorted(keys) if self.beginning is not None else ():
            if self.texts.get(kid) != keys[kid]:
                what = f"key {kid} is on record, and nobody who signs for the store vouched for it"
                self.findings.add(Problem("KEY_HISTORY", what), Where(file="keys.json", row=f"kid {kid}"))

    def signers(self, kid: str) -> tuple[set[str], set[str]]:
        """Who may sign for the store where this key does.

        (Itself and whom it vouched for; who came in the place of one that was lost).
        """
        vouched, others = {kid}, set[str]()
        if self.beginning is not None and self.begun_by == kid:
            vouched.update(self.beginning.keys)
        for old, new, is_vouched in self.heirs:
            if old in vouched and is_vouched:
                vouched.add(new)
            elif old in vouched or old in others:
                others.add(new)
        return vouched, others - vouched

    def trusted(self, keys: Mapping[str, TrustedKey]) -> dict[str, TrustedKey]:
        """These keys, and those to which one of them was rotated."""
        found = dict(keys)
        for rotation in self.rotations:
            if rotation.old_kid in found:
                found.setdefault(rotation.new_kid, replace(found[rotation.old_kid], public_key=rotation.new_key))
        return found
