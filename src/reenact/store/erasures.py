"""The record of an erasure: who took a value out and why, chained over the whole store. docs/spec/payloads.md.

What stands in it, or in the record of a key, is never taken out again.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from reenact.contracts.records import Erasure, Removal
from reenact.errors import UsageError
from reenact.journal.chain import with_digest
from reenact.policy.redaction import SecretRules, as_mark
from reenact.store.base import Archiving, Erasing
from reenact.values.digest import ZERO_DIGEST
from reenact.values.ids import refuse_nul
from reenact.values.threads import build

LONGEST_NAME = 255
LONGEST_REASON = 1000
"""Of who says so, and why, in any signed record."""


def for_good(who: str, reason: str = "") -> str:
    """The reason as it may stand for good: without what looks like a secret, as the one that leaked and is erased."""
    for what, said, longest in (("who says so", who, LONGEST_NAME), ("the reason", reason, LONGEST_REASON)):
        refuse_nul(what, said)
        if len(said) > longest:
            raise UsageError(f"{what} stands in the record, with at most {longest} characters; this has {len(said)}")
    refuse_secret_name(who)
    return str(SecretRules().apply_text(reason, as_mark))


def refuse_secret_name(who: str) -> None:
    if SecretRules().apply_text(who, as_mark) is not who:
        raise UsageError("who says so looks like a secret, and names are written as they are")


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
