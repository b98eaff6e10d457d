"""Whose lease a unit is written under, and which key signs what goes with it."""

from __future__ import annotations

from collections.abc import Callable

from reenact.store.base import LEASE_MS, Lease, Unit
from reenact.store.keys.notes import Note, sign_at_once
from reenact.store.signing import KeyOf, SigningKey, missing_key
from reenact.values.clock import Clock


class Signer:
    """The keys of one store, as whoever writes to it needs them."""

    def __init__(self, store_id: str, clock: Clock, own_key: Callable[[], SigningKey], key_of: KeyOf) -> None:
        self.store_id = store_id
        self._clock = clock
        self._own_key = own_key
        self._key_of = key_of

    def lease(self, unit: Unit, held: Lease | None, owner: str) -> Lease:
        """That of a new run where there is none yet. Its deadline is taken before anything is sent."""
        if held is not None:
            return held
        assert unit.new_run is not None
        until = self._clock.monotonic() + LEASE_MS / 1000
        return Lease(unit.run_id, owner, 1, 0, kid=self._own_key().kid, until=until)

    def key(self, lease: Lease) -> SigningKey:
        key = self._key_of(lease.kid) if lease.kid else self._own_key()
        if key is None:
            raise missing_key(lease.run_id, lease.kid)
        return key

    def notes(self, unit: Unit, key: SigningKey) -> list[Note]:
        """What the unit signs; SignFirst where a command has to sign first."""
        return [sign_at_once(key, schema, self.store_id, digest) for schema, digest in unit.signs]
