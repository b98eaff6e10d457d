"""Partitions of the large tables: made before runs need them, and vacuumed after an erasure."""

from __future__ import annotations

from contextlib import suppress

from reenact.errors import StoreError
from reenact.store.postgres.opened.database import BYTES_A_SECOND, Database

RUNS_BITS = 20
"""So many bits of a run's number tell its place within a partition."""
MOST_S = 60
NEXT = "SELECT last_value FROM :schema.run_numbers"


class Partitions:
    """Of one store. A look costs a round trip, so it is taken seldom."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._begun = 0
        self._made = 0

    def keep_ahead(self) -> None:
        """A run has begun: now and then, see that there is room for a million more."""
        self._begun += 1
        if self._begun % 1000 != 1:
            return
        with suppress(StoreError):  # somebody else may be at it, and has the right to
            ((number,),) = self._database.ask(NEXT)
            if number >> RUNS_BITS >= self._made or self._begun == 1:
                self._database.call("SELECT :schema.add_partitions(%s::bigint)", (number,))
                self._made = number >> RUNS_BITS

    def vacuum(self) -> None:
        """Where this role may; where not, the server does it in its own time."""
        with suppress(StoreError):
            self._database.call("VACUUM :schema.payloads, :schema.late_effects", size=MOST_S * BYTES_A_SECOND)
