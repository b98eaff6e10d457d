"""The stores that a store was copied from as a new one. A run stays a run of the store in which it began.

What is signed of it names that store: capabilities, notes, heads. So it is verified as it was there, nothing goes on
with it here, and nothing of it is taken out. The row that says so needs no signature: a run that is said to be of
another store than its own does not verify.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from reenact.errors import DamagedRecord, KeyUnavailable
from reenact.journal.chain import encode
from reenact.values.threads import build

COPIED: Final = "copied_as_new"
"""In `store` of such a copy."""


class Origin(msgspec.Struct, frozen=True):
    """A store before this one."""

    keys: dict[str, str]
    """kid → public key, of those that have signed for it"""
    last_run: int
    """The number of its newest run."""
    store_id: str


class Origins(NamedTuple):
    """All of them, the oldest first; none where the store is nobody's copy."""

    stores: tuple[Origin, ...] = ()

    @property
    def last_run(self) -> int:
        """Runs with a greater number began here."""
        return self.stores[-1].last_run if self.stores else 0

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(each.store_id for each in self.stores)

    def of(self, run_no: int) -> Origin | None:
        """The store in which a run began that did not begin here."""
        return next((each for each in self.stores if run_no <= each.last_run), None)

    def refuse(self, run_id: str, run_no: int) -> None:
        """KeyUnavailable for a run that is only read here."""
        origin = self.of(run_no)
        if origin is not None:
            raise KeyUnavailable(
                f"run {run_id} began in store {origin.store_id}, and goes on there: this store is a copy of that one, "
                "and nothing of the run is changed here",
                kid=next(iter(origin.keys), ""),
            )

    def written(self) -> str:
        return encode(self.stores).decode()


def read_origins(said: object) -> Origins:
    """What stands in the row; DamagedRecord where that is nothing of ours."""
    if said is None:
        return Origins()
    try:
        return Origins(msgspec.json.decode(str(said), type=tuple[Origin, ...]))
    except msgspec.DecodeError:
        raise DamagedRecord(f"row {COPIED} of store says nothing that can be read: restore a backup") from None


build(Origin)
