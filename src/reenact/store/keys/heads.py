"""The note that says from which run on every commit of a store is vouched for."""

from __future__ import annotations

from typing import Final

import msgspec

from reenact.store.keys.notes import Note, sign_note
from reenact.store.signing import SigningKey
from reenact.values.canonical import canonicalize
from reenact.values.digest import sha256_hex
from reenact.values.threads import build

MARKER: Final = "reenact.heads.v1"


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """What the note is about: from the run after `last_run` on, every commit is vouched for."""

    keys_linked: bool = False
    """The rows of idempotency keys are vouched for too, and that there are no others."""
    last_run: int
    """The number of the newest run by then; 0 in a store that had none."""
    runs: list[tuple[str, int, str]]
    """(run id, commits, head) of each run that was vouched for as it was found."""
    schema: str = MARKER
    ts: str
    votes: int
    """That waited then, and were signed as they were found."""

    def signed(self, key: SigningKey, store_id: str) -> Note:
        record = canonicalize(self)
        return sign_note(key, MARKER, store_id, sha256_hex(record), record)


build(Marker)
