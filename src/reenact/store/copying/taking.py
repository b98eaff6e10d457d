"""What a copy takes of a store: all of it, where the store moves; else what is on record of its runs.

A copy that is a new store has an id, a secret and keys of its own, and says of which store its runs are. What nobody
signed for it is not its: the other store's log, what was spent and set apart there, votes that wait, and keys of calls,
which nothing could be found under any more.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from reenact.contracts.records import ENDED
from reenact.store.copying.origins import COPIED, Origin, Origins, read_origins
from reenact.store.copying.sides import Side, Source, Target
from reenact.store.copying.tables import AS_NEW, IDENTITY, OWN, TABLES, Row, Table
from reenact.values.clock import Clock

Verdicts = tuple[int, str, str, str, str]
"""Exit code, integrity, completeness, authenticity, anchoring."""
BY_NAME: Final = {each.name: each for each in TABLES}
RUNS: Final = BY_NAME["runs"]
STATUS, CANCEL = RUNS.columns.index("status"), RUNS.columns.index("cancel")


class Taking(NamedTuple):
    """What is taken."""

    as_new: bool = False

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(each for each in TABLES if not (self.as_new and each.name in AS_NEW))

    def begun_as(self, store_id: str) -> str:
        """What a copy says that is not whole: a try of the other kind does not go on with it."""
        return f"{store_id}, as new" if self.as_new else store_id

    def is_whole(self, target: Target, store_id: str) -> bool:
        if not self.as_new:
            return target.says_whole("store_id") == store_id
        stores = read_origins(target.says_whole(COPIED)).stores
        return bool(stores) and stores[-1].store_id == store_id

    def rows(self, side: Side, table: Table, after: Row | None = None) -> Generator[Row, None, None]:
        """As they are in the copy, without those that say something of the place."""
        left_out = (*OWN, *IDENTITY) if self.as_new else OWN
        for row in side.rows(table, after):
            if table.name == "store" and row[0] in left_out:
                continue
            yield held(row) if self.as_new and table is RUNS else row

    def agree(self, verdicts: dict[str, Verdicts], copies: dict[str, Verdicts]) -> bool:
        """Whether the copy verifies as what it was copied from, but for a log that was not."""
        compared = slice(4) if self.as_new else slice(None)
        return {run_id: each[compared] for run_id, each in verdicts.items()} == {
            run_id: each[compared] for run_id, each in copies.items()
        }

    def make_identity(self, source: Source, target: Target, clock: Clock) -> None:
        """Of a new store, once: an earlier try may have made it."""
        if not self.as_new:
            return
        if target.says("store_id") is None:
            rows = ((COPIED, origins_with(source).written()), ("store_id", clock.uuid7()))
            target.write(BY_NAME["store"], rows)
        if target.last(BY_NAME["key_secret"]) is None:
            target.write(BY_NAME["key_secret"], [(1, clock.random_bytes(32))])


def held(row: Row) -> Row:
    """An open run goes on where it began, and nowhere else."""
    if row[STATUS] in ENDED:
        return row
    cells = list(row)
    cells[STATUS], cells[CANCEL] = "held", None
    return tuple(cells)


def origins_with(source: Source) -> Origins:
    """Those of a copy of this store."""
    with source.evidence() as evidence:
        numbers = evidence.run_numbers()
        own = Origin(keys=evidence.keys(), last_run=max(numbers, default=0), store_id=evidence.store_id() or "")
        return Origins((*evidence.origins().stores, own))


def count_open(side: Side) -> int:
    return sum(row[STATUS] not in ENDED for row in side.rows(RUNS))
