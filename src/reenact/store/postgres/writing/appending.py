"""Commits: one round trip where nothing has to be looked up, a transaction that takes its locks first where it has.

A commit may be sent twice, when nobody knows what became of it: the database tells by run, number and digest whether it
is there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

from reenact.errors import ReenactError, StoreBusy
from reenact.store.base import Appended, Lease, Unit
from reenact.store.beside.idempotency import IdempotencyKeys
from reenact.store.postgres.opened.database import Database
from reenact.store.postgres.opened.errors import Lost
from reenact.store.postgres.writing.groups import Work, size_of, turns
from reenact.store.postgres.writing.locking import Locking, Refused, Sending
from reenact.store.postgres.writing.outcomes import APPEND, Written, appended, refusal_of
from reenact.store.postgres.writing.packing import Batch, Packing
from reenact.store.postgres.writing.signer import Signer
from reenact.store.signing import KeyOf, SignFirst, SigningKey
from reenact.values.clock import Clock

Result = Appended | Exception


class Appender:
    """Writes units. What is refused stands in the place of its result."""

    def __init__(
        self, database: Database, clock: Clock, store_id: str, own_key: Callable[[], SigningKey], key_of: KeyOf
    ) -> None:
        self._database = database
        self._packing = Packing(store_id)
        self._packs = threading.RLock()
        """Whoever packs for this store: what it is packed with is one thread's at a time."""
        self._signer = Signer(store_id, clock, own_key, key_of)
        self._locking = Locking(self._packing, self._signer, IdempotencyKeys(store_id, own_key, key_of))

    def append(self, units: list[Work]) -> list[Result]:
        """What became of each. A unit that is refused is taken out alone."""
        results: dict[int, Result] = {}
        with self._packs:
            for turn in turns(units):
                for part, act in ((turn.plain, self._append_together), (turn.locking, self._append_locking)):
                    results |= zip(part, act([units[at] for at in part]), strict=True)
                for at in turn.alone:
                    (results[at],) = self._append_locking([units[at]])
        return [results[at] for at in range(len(units))]

    # -- in one round trip -----------------------------------------------------------------------------------------

    def _append_together(self, units: list[Work], *, tries: int = 3) -> list[Result]:
        batch, leases = Batch(), dict[int, Lease]()
        results: dict[int, Result] = {}
        for at, work in enumerate(units):
            try:
                leases[at] = self._pack(batch, *work)
            except ReenactError as refusal:
                results[at] = refusal
        rows, digests = self._sent(batch), [batch.blobs[unit["digest"] - 1] for unit in batch.units]
        if isinstance(rows, ReenactError):
            if len(leases) > 1 and is_of_one(rows):
                return [self._append_together([work])[0] for work in units]
            return [results.get(at, rows) for at in range(len(units))]
        for at, written, digest in zip(leases, rows, digests, strict=True):
            if written.outcome == "base" and tries:
                self._packing.forget(units[at][0].run_id)
                (results[at],) = self._append_together([units[at]], tries=tries - 1)
            elif written.outcome in ("done", "again"):
                results[at] = appended(leases[at], written, digest, None)
            else:
                results[at] = refusal_of(units[at][0], written)
        return [results[at] for at in range(len(units))]

    def _pack(self, batch: Batch, unit: Unit, held: Lease | None, owner: str) -> Lease:
        lease = self._signer.lease(unit, held, owner)
        key = self._signer.key(lease)
        for tries in count(1):
            try:
                notes = self._signer.notes(unit, key)
                break
            except SignFirst as first:
                first.sign(tries)
        self._packing.add(batch, unit, lease, key, unit.body, notes)
        return lease

    def _sent(self, batch: Batch) -> list[Written] | ReenactError:
        if not batch.units:
            return []
        values, again = batch.parameters(), batch.parameters(again=True)
        try:
            return [Written(*row) for row in self._database.call(APPEND, values, again=again, size=batch.size)]
        except ReenactError as error:
            return error

    # -- under locks -----------------------------------------------------------------------------------------------

    def _append_locking(self, units: list[Work]) -> list[Result]:
        """In one transaction: what is refused is taken out, and the others are begun again."""
        group = [Sending(unit, self._signer.lease(unit, held, owner)) for unit, held, owner in units]
        left, results = list(group), dict[Sending, Result]()
        for tries in count(1):
            if not left:
                break
            try:
                results |= zip(left, self._transact(left), strict=True)
                left = []
            except Refused as refused:
                results[refused.one] = refused.why
                left.remove(refused.one)
            except SignFirst as first:
                if len(left) == 1:
                    first.sign(tries)
                    continue
                break  # what a command signs for one place in the chain is worth nothing at the next
            except ReenactError as error:
                if len(left) > 1 and is_of_one(error):
                    break
                results |= dict.fromkeys(left, error)
                left = []
        for one, work in zip(group, units, strict=True):
            if one in left:
                (results[one],) = self._append_locking([work])
        return [results[one] for one in group]

    def _transact(self, group: list[Sending]) -> list[Appended]:
        size = sum(size_of(one.unit) for one in group)
        return self._database.transact(lambda db: self._locking.append(db, group), size=size)


def is_of_one(error: ReenactError) -> bool:
    """Whether it may be about one unit of several, and nothing was written: then each is tried alone."""
    return not isinstance(error, Lost | StoreBusy)
