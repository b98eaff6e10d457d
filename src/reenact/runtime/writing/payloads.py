"""The one place where values are written: redacted, put into an envelope, stored once within a run."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import cast

from msgspec.structs import replace

from reenact.contracts.outcome import StructuredOutcome
from reenact.journal.chain import encode
from reenact.policy.redaction import REDACTED
from reenact.runtime.writing.redaction import Redactor
from reenact.store.base import PAYLOAD_BITS, NewPayload, Store
from reenact.values.canonical import canonicalize
from reenact.values.clock import Door
from reenact.values.digest import sha256_hex
from reenact.values.envelope import open_envelope

MARK = REDACTED.encode()
RECENT = 512
LARGE = 256


class PayloadBook:
    """Envelopes of one run: those of the commit in the making, and those already in the store."""

    def __init__(self, store: Store, run_id: str, door: Door, dedupe_key: bytes, redactor: Redactor) -> None:
        self._store = store
        self._run_id = run_id
        self._door = door
        self._dedupe_key = dedupe_key
        self.redactor = redactor
        self._recent: OrderedDict[bytes, tuple[str, int | None]] = OrderedDict()
        self.pending: list[NewPayload] = []
        self.in_flight: list[NewPayload] = []
        """Of commits that are on their way, or stand in a row for it."""
        self.shared: list[tuple[str, int]] = []
        self._named_in_flight: set[bytes] = set()
        """Content that was named again before it arrived: where it lies is known then."""

    def put(self, value: object, *, hints: tuple[str, ...] = ()) -> tuple[str, int]:
        """(commitment, size of the envelope) of a value; equal values of a run share one envelope.

        `hints` name fields that a skill marks secret.
        """
        return self.put_content(self.redactor.content(value, hints)[0])

    def put_as_it_is(self, value: object) -> tuple[str, int]:
        """As `put`, for a plan: what its hash covers is what is stored, and no secret was let into it."""
        return self.put_content(canonicalize(value))

    def content_of(self, parameters: dict[str, object], hints: tuple[str, ...]) -> tuple[bytes, bool]:
        """(what `put` would write, whether they are plain): no secret, no mark of one, no key that begins with `$`."""
        content, clean = self.redactor.content(parameters, hints)
        return content, clean and b'"$' not in content and MARK not in content

    def put_content(self, content: bytes) -> tuple[str, int]:
        """As `put`, for what is redacted and canonical already."""
        content_key = blake2b(content, key=self._dedupe_key, digest_size=16).digest()
        size = len(content) + 32
        known = self._known(content_key) if content_key in self._recent or size >= LARGE else None
        if known is not None:
            commitment, payload_id = known
            if payload_id is not None:
                self.shared.append((commitment, payload_id))
            elif self.in_flight:  # a row too many, where it is not among these, does no harm
                self._named_in_flight.add(content_key)
            return commitment, size
        envelope = self._door.random_bytes(32) + content
        commitment = sha256_hex(envelope)
        self.pending.append(NewPayload(commitment, content_key, envelope))
        self._remember(content_key, commitment, None)
        return commitment, size

    def put_outcome(self, outcome: StructuredOutcome) -> tuple[str, int]:
        """As `put`, for a record that names its own time and ids: looking for an equal one would be a waste."""
        message = self.redactor.redact_text(outcome.message)
        details = None if outcome.details is None else self.redactor.redact(outcome.details)
        if message is not outcome.message or details is not outcome.details:
            outcome = replace(outcome, message=message, details=cast("dict[str, object] | None", details))
        content = encode(outcome) if outcome.details is None else canonicalize(outcome)
        envelope = self._door.random_bytes(32) + content
        commitment = sha256_hex(envelope)
        self.pending.append(NewPayload(commitment, b"", envelope))
        return commitment, len(envelope)

    def _known(self, content_key: bytes) -> tuple[str, int | None] | None:
        found = self._recent.get(content_key)
        if found is not None:
            self._recent.move_to_end(content_key)
            return found
        stored = self._store.find_content(self._run_id, content_key)
        if stored is not None:
            self._remember(content_key, stored[0], stored[1])
        return stored

    def _remember(self, content_key: bytes, commitment: str, payload_id: int | None) -> None:
        self._recent[content_key] = (commitment, payload_id)
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def take_pending(self) -> tuple[list[NewPayload], list[tuple[str, int]]]:
        """What the next commit stores, and what it names again of earlier commits."""
        taken = (self.pending, self.shared)
        self.in_flight = [*self.in_flight, *self.pending] if self.in_flight else self.pending
        self.pending, self.shared = [], []
        return taken

    def give_back(self, payloads: list[NewPayload], shared: list[tuple[str, int]]) -> None:
        """The only commit on its way failed: its envelopes go with the next one."""
        self.pending, self.shared, self.in_flight = payloads + self.pending, shared + self.shared, []
        self._named_in_flight = set()

    def committed(self, run_no: int, n: int, payloads: list[NewPayload]) -> None:
        """These envelopes, the first of those on their way, are durable as those of commit `n`."""
        recent, named = self._recent, self._named_in_flight
        for payload_id, (commitment, content_key, _) in enumerate(payloads, (run_no << 24 | n) << PAYLOAD_BITS):
            if content_key in recent:
                recent[content_key] = (commitment, payload_id)
            if content_key in named:
                named.discard(content_key)
                self.shared.append((commitment, payload_id))
        self.in_flight = self.in_flight[len(payloads) :]

    def get(self, commitment: str, *, near: int | None = None) -> object:
        """The value behind a commitment; LookupError when its envelope is gone."""
        for payload in (*self.pending, *self.in_flight):
            if payload.commitment == commitment:
                return self.redactor.decrypt(open_envelope(payload.envelope, commitment))
        envelope = self._store.payload(self._run_id, commitment, near=near)
        if envelope is None:
            raise LookupError(commitment)
        return self.redactor.decrypt(open_envelope(envelope, commitment))
