"""The record of an erasure: who took a value out and why, chained over the whole store. docs/spec/payloads.md."""

from __future__ import annotations

import msgspec

from reenact.contracts.records import Erasure
from reenact.journal.chain import with_digest
from reenact.store.base import Erasing
from reenact.values.digest import ZERO_DIGEST
from reenact.values.struct_types import build

LONGEST_NAME = 255
LONGEST_REASON = 1000
"""Of who says so, and why, in any signed record."""


def erasure_record(erasing: Erasing, commitment: str, ts: str, *, after: bytes | None) -> Erasure:
    """The record that follows `after`, the store's last one."""
    prev = ZERO_DIGEST if after is None else str(msgspec.json.decode(after, type=Erasure).digest)
    record = Erasure(
        commitment=commitment, prev=prev, reason=erasing.reason, run_id=erasing.run_id, ts=ts, who=erasing.who
    )
    return with_digest(record)


build(Erasure)
