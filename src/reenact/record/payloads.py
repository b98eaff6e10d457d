"""Reading recorded values (parameters, outputs, responses) from a store, by the commitments in the journal."""

from __future__ import annotations

from dataclasses import dataclass

from reenact.store.base import Store
from reenact.values.envelope import open_envelope


@dataclass(frozen=True, slots=True)
class StoredPayloads:
    """The values of one run. `near` is the commit that names one: there it is found at once."""

    store: Store
    run_id: str

    def get(self, commitment: str, *, near: int | None = None) -> object:
        """The value, checked against its commitment; LookupError when it was erased."""
        envelope = self.store.payload(self.run_id, commitment, near=near)
        if envelope is None:
            raise LookupError(commitment)
        return open_envelope(envelope, commitment)
