"""What the database says of units that were sent to it, and what their callers are told."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from reenact.contracts.records import Seal
from reenact.errors import ConcurrentExecution, ReenactError, StoreVersionError, UsageError
from reenact.store.base import Appended, Lease, Unit

APPEND = "SELECT outcome, run_no, cancel, expires FROM :schema.append_1(%s::jsonb, %b::bytea[])"


class Written(NamedTuple):
    """What the database says of a unit."""

    outcome: str
    run_no: int
    cancel: str | None
    expires_ms: int | None


def appended(lease: Lease, written: Written, digest: bytes, seal: Seal | None) -> Appended:
    if written.expires_ms is not None and lease.expires_ms == 0:
        lease = replace(lease, expires_ms=written.expires_ms)
    if written.cancel is not None:
        lease = replace(lease, cancel=written.cancel)
    return Appended(lease, digest.hex(), seal)


def refusal_of(unit: Unit, written: Written) -> ReenactError:
    if written.outcome == "exists":
        return UsageError(f"there is a run {unit.run_id} in this store already; leave the id out to get a new one")
    if written.outcome == "old":
        return StoreVersionError("this store is written to by newer versions of reenact alone: upgrade reenact")
    return fenced(unit.run_id)


def fenced(run_id: str) -> ConcurrentExecution:
    return ConcurrentExecution(
        f"run {run_id}: another executor took over; this one wrote nothing. See `reenact show {run_id}`"
    )
