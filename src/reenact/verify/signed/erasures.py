"""Erasure records: each is signed by a key of the store, and those that a seal counted are still there."""

from __future__ import annotations

from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from reenact.verify.capability import KeyRing
from reenact.verify.payloads import Seen
from reenact.verify.report import Findings, Problem, Where
from reenact.verify.signed.keys import KeyHistory
from reenact.verify.signed.notes import ERASURE, REMOVAL, Chain, NoteRow, NoteSource, signs


class SignedErasures:
    """Holds a store's chain of erasures, or a bundle's part of it, against the notes about them."""

    def __init__(
        self,
        source: NoteSource | None,
        history: KeyHistory,
        ring: KeyRing,
        findings: Findings,
        is_trusted: Callable[[str, object], bool],
    ) -> None:
        """`is_trusted` says of a key and a store whether the reader named it himself."""
        self._source = source
        self._is_trusted = is_trusted
        self._history = history
        self._ring = ring
        self._findings = findings
        self.unsigned = 0
        """Records about which there is no note, and that need none."""
        self.stores: set[object] = set()
        """In whose name the others are signed."""
        self._unvouched: set[str] = set()
        """Keys that came in the place of a lost one."""

    def check_counts(self, records: list[Seen], *, whole: bool) -> None:
        """That counts are signed; and of a store's complete chain, for which `whole` stands, that they are true."""
        counted = self._counted()
        if whole and self._source is not None:
            self._check_counted(counted, records)

    def check_store(self, records: list[Seen]) -> None:
        """Of a store's complete chain: all but those of before the beginning."""
        beginning, is_known = self._history.beginning, self._source is not None
        older = beginning.erasures.count if beginning is not None else 0
        for record in records[older:]:
            rows = self._rows(record)
            if not rows and is_known and beginning is not None:
                self._nobody_signed(record)
            self.unsigned += not rows
            for row in rows:
                key = self._history.keys.get(str(row.kid))
                self._check_note(row, record, key, is_whole=is_known)
        self._tell()
        if older and records:
            self._findings.note(f"the store's first {older} erasures were made before they were signed")

    def check_part(self, records: list[Seen], kid: str | None) -> None:
        """Of what a bundle has, once its journal was read; `kid` is the key that its run began with."""
        history, ring = self._history, self._ring
        older = history.beginning.erasures.count if history.beginning is not None else None
        may: set[str] | None = None if older is None else set(history.keys)
        if ring.begins_bound and kid is not None:
            vouched, self._unvouched = history.signers(kid)
            older, may = 0, vouched | self._unvouched
        elif older is None and ring.bound:
            older = 0
        is_signed = False
        for record in records:
            rows = self._rows(record)
            is_signed = is_signed or bool(rows)
            if rows:
                for row in rows:
                    self._check_part_note(row, record, may)
            elif older is None or (record.is_first_version and self.unsigned < older and not is_signed):
                self.unsigned += 1
            else:
                self._nobody_signed(record)
        self._tell()

    def _nobody_signed(self, record: Seen) -> None:
        problem = Problem("ERASURE_SIGNATURE", "an erasure that nobody signed, of a store that signs")
        self._findings.add(problem, record.where)

    def _check_part_note(self, row: NoteRow, record: Seen, may: set[str] | None) -> None:
        if may is not None and row.kid not in may:
            self.stores.add(row.store_id)
            what = f"an erasure is signed by key {row.kid}, which signs nothing for the store of this run"
            self._findings.add(Problem("ERASURE_SIGNATURE", what), record.where)
            return
        key = self._history.keys.get(str(row.kid)) or self._ring.key(str(row.kid), row.store_id)
        self._check_note(row, record, key, is_whole=False)

    def _check_note(self, row: NoteRow, record: Seen, key: Ed25519PublicKey | None, *, is_whole: bool) -> None:
        self.stores.add(row.store_id)
        same_store = self._history.store_id in (None, row.store_id)
        if key is None and not is_whole:
            self._ring.unknown += 1
        elif not same_store or not signs(row, key):
            what = f"the signature of an erasure does not fit key {row.kid}"
            self._findings.add(Problem("ERASURE_SIGNATURE", what), record.where)
        elif self._ring.key(str(row.kid), row.store_id) is None:
            self._ring.unknown += 1
        elif row.kid in self._unvouched and not self._is_trusted(str(row.kid), row.store_id):
            self._findings.note(f"erasures are signed by key {row.kid}, not vouched for by the key that was lost")
            self._ring.unknown += 1
        else:
            self._ring.verified += 1

    def _rows(self, record: Seen) -> list[NoteRow]:
        about = () if self._source is None else self._source.about(record.digest)
        return [row for row in about if row.schema in (ERASURE, REMOVAL)]

    def _tell(self) -> None:
        if self.unsigned:
            self._findings.note(f"who erased, when and why is not signed for {self.unsigned} erased values")

    def _counted(self) -> list[tuple[Where, Chain]]:
        """How many there were, as far as that is signed."""
        history, counted = self._history, []
        if history.beginning is not None:
            counted.append((Where(file="notes.jsonl"), history.beginning.erasures))
        for row, sealed in history.sealed:
            if not signs(row, history.keys.get(str(row.kid))):
                problem = Problem("ERASURE_SIGNATURE", f"the count of erasures is not signed by key {row.kid}")
                self._findings.add(problem, row.where)
            else:
                counted.append((row.where, sealed.erasures))
        return counted

    def _check_counted(self, counted: list[tuple[Where, Chain]], records: list[Seen]) -> None:
        """What a signed count covers is what is there; more may have followed."""
        for where, chain in counted:
            there = records[chain.count - 1].digest if 0 < chain.count <= len(records) else None
            if chain.count and there != chain.head:
                what = f"erasure {chain.count} is not the one that was there when they were counted and signed"
                self._findings.add(Problem("ERASURE_CHAIN", what, chain.head, there), where)
