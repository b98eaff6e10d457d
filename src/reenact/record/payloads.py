"""Reading recorded values (parameters, outputs, responses) from a store, by the commitments in the journal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from reenact.store.base import Store
from reenact.values.envelope import Archived, open_envelope

LOADED_BYTES: Final = 32 << 20
"""How much of a run's values is read ahead; what is beyond is read when it is asked for."""


class Withheld(LookupError):
    """The value was left out of the export that is read."""


@dataclass(frozen=True, slots=True)
class StoredPayloads:
    """The values of one run. `near` is the commit that names one: there it is found at once.

    `absent` says what became of one that is not there, if the store cannot.
    """

    store: Store
    run_id: str
    ahead: dict[str, bytes] = field(default_factory=dict)
    absent: Callable[[str], LookupError] | None = None

    def get(self, commitment: str, *, near: int | None = None) -> object:
        """The value, checked against its commitment; LookupError when it was erased, or is archived or withheld."""
        envelope = self.ahead.get(commitment) or self.store.payload(self.run_id, commitment, near=near)
        if envelope is None:
            raise self._gone(commitment)
        return open_envelope(envelope, commitment)

    def _gone(self, commitment: str) -> LookupError:
        if self.absent is not None:
            return self.absent(commitment)
        return Archived(commitment) if self.store.is_archived(self.run_id, commitment) else LookupError(commitment)

    def read_ahead(self) -> StoredPayloads:
        """For whoever will ask for most of them: in large bites, from the first on."""
        size = 0
        for commitment, envelope in self.store.payloads(self.run_id):
            size += len(envelope)
            if size > LOADED_BYTES:
                break
            self.ahead[commitment] = envelope
        return self
