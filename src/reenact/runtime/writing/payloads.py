"""The one place where values are written: redacted, put into an envelope, stored once within a run."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b, sha256
from typing import cast

from msgspec.structs import replace

from reenact.contracts.outcome import StructuredOutcome
from reenact.errors import CanonicalizationError
from reenact.journal.chain import encode
from reenact.policy.redaction import REDACTED
from reenact.runtime.writing.redaction import Redactor
from reenact.runtime.writing.staging import Draft, Place
from reenact.store.base import NewPayload, Store
from reenact.values.canonical import canonicalize
from reenact.values.clock import Clock
from reenact.values.envelope import LARGEST_ENVELOPE, open_envelope

MARK = REDACTED.encode()
ENCRYPTED = b'"$sealed"'
RECENT = 512
LARGE = 256


class PayloadBook:
    """Envelopes of one run: those of the commits in the making, and those already in the store."""

    def __init__(self, store: Store, run_id: str, clock: Clock, dedupe_key: bytes, redactor: Redactor) -> None:
        self._store = store
        self._run_id = run_id
        self._clock = clock
        self._dedupe_key = dedupe_key
        self.redactor = redactor
        self._recent: OrderedDict[bytes, tuple[str, Place]] = OrderedDict()
        """By content: the commitment, and where its envelope lies or will lie."""
        self.draft = Draft(run_id=run_id)
        """The commit that takes what is put."""
        self.in_flight: list[Draft] = []
        """Commits that take nothing more and are not durable yet, oldest first."""
        self._named_in_flight: list[tuple[str, Place]] = []
        """What was named again before it arrived: where it lies is known then."""

    def put(self, value: object, *, hints: tuple[str, ...] = (), ask: bool = False) -> tuple[str, int]:
        """(commitment, size of the envelope) of a value; equal values of a run share one envelope.

        `hints` name fields that a skill marks secret. With `ask`, LargeValue where it is to be searched off the loop.
        """
        return self.put_content(self.redactor.content(value, hints, ask=ask)[0])

    def put_as_it_is(self, value: object) -> tuple[str, int]:
        """As `put`, for a plan: what its hash covers is what is stored, and no secret was let into it."""
        return self.put_content(canonicalize(value))

    def content_of(self, parameters: dict[str, object], hints: tuple[str, ...]) -> tuple[bytes, bool]:
        """(what `put` would write, whether they are plain): no secret, no mark of one, no key that begins with `$`.

        LargeValue where they are to be searched off the loop.
        """
        content, clean = self.redactor.content(parameters, hints, ask=True)
        return content, clean and content.find(b'"$') < 0 and content.find(MARK) < 0

    def put_content(self, content: bytes) -> tuple[str, int]:
        """As `put`, for what is redacted and canonical already."""
        content_key = blake2b(content, key=self._dedupe_key, digest_size=16).digest()
        size = len(content) + 32
        if size > LARGEST_ENVELOPE:
            raise CanonicalizationError(f"a value of {size} bytes: at most {LARGEST_ENVELOPE} can be recorded")
        known = self._known(content_key, content) if content_key in self._recent or size >= LARGE else None
        if known is not None:
            self._name_again(*known)
            return known[0], size
        envelope = self._clock.random_bytes(32) + content
        commitment = sha256(envelope).hexdigest()
        self.draft.payloads.append(NewPayload(commitment, content_key, envelope))
        self._remember(content_key, commitment, self.draft.place)
        return commitment, size

    def put_outcome(self, outcome: StructuredOutcome) -> tuple[str, int]:
        """As `put`, for a record that names its own time and ids: looking for an equal one would be a waste."""
        if outcome.status != "success" or outcome.details is not None:  # else every word in it is ours
            message = self.redactor.redact_text(outcome.message)
            details = None if outcome.details is None else self.redactor.redact(outcome.details)
            outcome = replace(outcome, message=message, details=cast("dict[str, object] | None", details))
        content = encode(outcome) if outcome.details is None else canonicalize(outcome)
        envelope = self._clock.random_bytes(32) + content
        commitment = sha256(envelope).hexdigest()
        self.draft.payloads.append(NewPayload(commitment, b"", envelope))
        return commitment, len(envelope)

    def _known(self, content_key: bytes, content: bytes) -> tuple[str, Place] | None:
        found = self._recent.get(content_key)
        if found is not None:
            self._recent.move_to_end(content_key)
            return found
        stored = self._store.find_content(self._run_id, content_key)
        if stored is None or not self._holds(*stored, content):
            return None
        return self._remember(content_key, stored[0], Place(stored[1]))

    def _holds(self, commitment: str, n: int, content: bytes) -> bool:
        """Nothing vouches for the row that says so: what it leads to is looked at, and else written anew."""
        envelope = self._store.payload(self._run_id, commitment, near=n)
        return envelope is not None and envelope[32:] == content and sha256(envelope).hexdigest() == commitment

    def _remember(self, content_key: bytes, commitment: str, place: Place) -> tuple[str, Place]:
        known = self._recent[content_key] = (commitment, place)
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)
        return known

    def _name_again(self, commitment: str, place: Place) -> None:
        if place.n:
            self.draft.shared.append((commitment, place.n))
        elif place is not self.draft.place:
            self._named_in_flight.append((commitment, place))

    def close_draft(self) -> Draft:
        """The draft so far is a commit of its own; what is put from here on goes into the next one."""
        closed = self.draft
        self.in_flight.append(closed)
        self.draft = Draft(run_id=self._run_id)
        return closed

    def reopen(self, closed: Draft) -> None:
        """The only commit on its way failed: it takes what was staged meanwhile, and is the draft again."""
        merged = self.draft.place
        for content_key, (commitment, place) in self._recent.items():
            if place is merged:
                self._recent[content_key] = (commitment, closed.place)
        closed.absorb(self.draft)
        self.draft, self.in_flight, self._named_in_flight = closed, [], []

    def committed(self, draft: Draft) -> None:
        """The oldest commit on its way is durable."""
        draft.place.n = draft.n
        del self.in_flight[0]
        if self._named_in_flight:
            for named in self._named_in_flight[:]:
                if named[1].n:
                    self.draft.shared.append((named[0], named[1].n))
                    self._named_in_flight.remove(named)

    def get(self, commitment: str, *, near: int | None = None) -> object:
        """The value behind a commitment; LookupError when its envelope is gone."""
        for draft in (self.draft, *self.in_flight):
            for payload in draft.payloads:
                if payload.commitment == commitment:
                    return self._opened(payload.envelope, commitment)
        envelope = self._store.payload(self._run_id, commitment, near=near)
        if envelope is None:
            raise LookupError(commitment)
        return self._opened(envelope, commitment)

    def _opened(self, envelope: bytes, commitment: str) -> object:
        value = open_envelope(envelope, commitment)
        return self.redactor.decrypt(value, passed_on=True) if ENCRYPTED in envelope else value
