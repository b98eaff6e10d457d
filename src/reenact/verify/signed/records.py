"""Records of a run that a key of the store signed beside the journal: its votes, and its seal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from reenact.verify.capability import KeyRing
from reenact.verify.report import Findings, Problem
from reenact.verify.signed.notes import NoteSource, signs

SEAL: Final = "reenact.seal.v1"
VOTE: Final = "reenact.vote.v1"


def signed_records(
    source: NoteSource, wanted: Iterable[tuple[str, str]], ring: KeyRing, findings: Findings
) -> set[str]:
    """The digests, of (schema, digest) wanted, that a key which is there has signed; a wrong signature is told."""
    signed: set[str] = set()
    for schema, about in wanted:
        for row in source.about(about):
            key = ring.key(str(row.kid)) if row.schema == schema else None
            if key is None:
                continue
            if not signs(row, key):
                what = f"the note about {schema} {about} is not signed by the key {row.kid}"
                findings.add(Problem("NOTE_SIGNATURE", what), row.where)
            elif not ring.issuers or ring.issuers == {f"reenact:{row.store_id}"}:
                signed.add(about)  # what was signed for another store says nothing here
    return signed
