"""Erasure records: each is signed by a key of the store, and those that a seal counted are still there."""

from __future__ import annotations

from reenact.verify.capability import KeyRing
from reenact.verify.report import Findings, Problem, Where
from reenact.verify.signed.keys import KeyHistory
from reenact.verify.signed.notes import ERASURE, REMOVAL, Chain, NoteSource, signs


class SignedErasures:
    """Holds a store's chain of erasures, or a bundle's part of it, against the notes about them."""

    def __init__(self, source: NoteSource | None, history: KeyHistory, ring: KeyRing, findings: Findings) -> None:
        self._source = source
        self._history = history
        self._ring = ring
        self._findings = findings
        self.unsigned = 0
        """Records of a bundle about which no note came with it."""
        self.stores: set[object] = set()
        """In whose name the others are signed."""

    def check(self, records: list[tuple[str, Where]], *, whole: bool) -> None:
        """(digest, place) of each record. `whole` says that they are a store's complete chain."""
        counted = self._counted()
        if whole and self._source is not None:
            self._check_counted(counted, records)
        beginning = self._history.beginning
        older = beginning.erasures.count if whole and beginning is not None else 0
        for digest, where in records[older:]:
            self._check_one(digest, where, whole=whole and self._source is not None)
        if self.unsigned:
            self._findings.note(f"who erased, when and why is not signed for {self.unsigned} erased values")
        if older and records:
            self._findings.note(f"the store's first {older} erasures were made before they were signed")

    def _check_one(self, digest: str, where: Where, *, whole: bool) -> None:
        about = () if self._source is None else self._source.about(digest)
        rows = [row for row in about if row.schema in (ERASURE, REMOVAL)]
        if not rows:
            self.unsigned += 1
            if whole and self._history.beginning is not None:  # else it is of before
                self._findings.add(Problem("ERASURE_SIGNATURE", "an erasure that nobody signed"), where)
            return
        for row in rows:
            self.stores.add(row.store_id)
            key = self._history.keys.get(str(row.kid)) or (
                None if whole else self._ring.key(str(row.kid), row.store_id)
            )
            same_store = self._history.store_id in (None, row.store_id)
            if key is None and not whole:
                self._ring.unknown += 1
            elif not same_store or not signs(row, key):
                what = f"the signature of an erasure does not fit key {row.kid}"
                self._findings.add(Problem("ERASURE_SIGNATURE", what), where)
            elif self._ring.key(str(row.kid), row.store_id) is None:
                self._ring.unknown += 1
            else:
                self._ring.verified += 1

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

    def _check_counted(self, counted: list[tuple[Where, Chain]], records: list[tuple[str, Where]]) -> None:
        """What a signed count covers is what is there; more may have followed."""
        for where, chain in counted:
            there = records[chain.count - 1][0] if 0 < chain.count <= len(records) else None
            if chain.count and there != chain.head:
                what = f"erasure {chain.count} is not the one that was there when they were counted and signed"
                self._findings.add(Problem("ERASURE_CHAIN", what, chain.head, there), where)
