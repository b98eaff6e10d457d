"""The record of an erasure: who took a value out and why, chained over the whole store. docs/spec/payloads.md."""

from __future__ import annotations

from typing import Literal

import msgspec

from reenact.contracts.records import Erasure, Removal
from reenact.journal.chain import with_digest
from reenact.store.base import Archiving, Erasing
from reenact.values.digest import ZERO_DIGEST
from reenact.values.threads import build

LONGEST_NAME = 255
LONGEST_REASON = 1000
"""Of who says so, and why, in any signed record."""


def erasure_record(
    erasing: Erasing | Archiving, commitment: str, ts: str, *, after: bytes | None, bundle: str | None = None
) -> Erasure | Removal:
    """The record that follows `after`, the store's last one. `bundle` is where the value lies, or lay when it went."""
    prev = ZERO_DIGEST if after is None else str(msgspec.json.decode(after)["digest"])
    who, reason, run_id = erasing.who, erasing.reason, erasing.run_id
    if bundle is None:
        return with_digest(Erasure(commitment=commitment, prev=prev, reason=reason, run_id=run_id, ts=ts, who=who))
    kind: Literal["erased", "archived"] = "archived" if isinstance(erasing, Archiving) else "erased"
    return with_digest(
        Removal(
            bundle=bundle, commitment=commitment, prev=prev, reason=reason, run_id=run_id, ts=ts, type=kind, who=who
        )
    )


build(Erasure)
build(Removal)
