"""The envelopes of one run by commitment, put together from what is stored. For the verifier and the export."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from reenact.errors import JsonSyntaxError
from reenact.store.compression import Codec
from reenact.store.damage import unpacked
from reenact.store.deltas import SALT, is_repacked, with_base
from reenact.store.evidence import PayloadPlace, RunEvidence
from reenact.values.canonical import parse_canonical


class StoredEnvelopes:
    """Nothing in it is verified: what cannot be unpacked is empty, and fits no commitment."""

    def __init__(self, run: RunEvidence) -> None:
        self._run = run
        self._codec = Codec()
        self.repacked: set[str] = set()
        """Commitments whose envelopes are packed in another way than this version packs them."""
        self.places: dict[str, PayloadPlace] = {}
        for place, commitment in run.payload_places():
            self.places.setdefault(commitment, place)

    def get(self, commitment: str, /) -> bytes | None:
        place = self.places.get(commitment)
        if place is None:
            return None
        stored = self._run.stored(place.payload_id)
        envelope, base_content = self._unpacked(place, stored)
        same = sha256(envelope).hexdigest() == commitment
        if stored is not None and same and is_repacked(self._codec, stored, envelope, base_content):
            self.repacked.add(commitment)
        return envelope

    def at(self, place: PayloadPlace) -> bytes:
        return self._unpacked(place, self._run.stored(place.payload_id))[0]

    def value(self, commitment: object) -> Any:
        """The value behind a commitment as far as it can be read; None otherwise."""
        envelope = self.get(commitment) if isinstance(commitment, str) else None
        if envelope is None:
            return None
        try:
            return parse_canonical(envelope[SALT:])
        except JsonSyntaxError:
            return None

    def _unpacked(self, place: PayloadPlace, stored: bytes | None) -> tuple[bytes, bytes]:
        """(the envelope, the content that it is built on)."""
        if stored is None:
            return b"", b""  # the store told of the cell
        found = unpacked(with_base, self._codec, stored, self._run.stored)
        if not isinstance(found, str):
            return found
        self._run.damaged.add("payloads", place.row, "body", found, place.n)
        return b"", b""
