"""The two sides of a copy, as an engine gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from reenact.store.copying.tables import Row, Table
from reenact.store.evidence import Evidence


class Held(NamedTuple):
    """A run that somebody works on."""

    run_id: str
    owner: str


class Side(Protocol):
    """A store that is copied, or the one that it is copied into. Use it in a `with`."""

    shown: str
    """Its URL, without a password."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    def says(self, name: str) -> str | None:
        """A row of `store`."""

    def count(self, table: Table) -> int:
        """Its rows."""

    def rows(self, table: Table, after: Row | None = None) -> Iterator[Row]:
        """Those behind a key, in the order of their keys."""

    def keys_at(self) -> Path:
        """What the names of its key files begin with, where none are named by the host."""

    def evidence(self) -> Evidence:
        """What lies there, to be verified; also while the store is not whole, or gives no lease any more."""


class Source(Side, Protocol):
    def freeze(self, to: str) -> list[Held]:
        """From here on nothing is written but by a copy, and no lease is given, in any process; whoever tries is told
        where the store goes. Where somebody works on a run nothing is done, and those runs are given back."""

    def thaw(self) -> None:
        """Undo it."""

    def retire(self, to: str) -> None:
        """It is there for good: `MOVED` in the place of `MOVING`."""


class Target(Side, Protocol):
    def begin(self, begun_as: str) -> None:
        """An empty store that nobody else can use yet, or one in which the same copy was begun: UsageError where there
        is anything else."""

    def says_whole(self, name: str) -> str | None:
        """A row of `store`, where the store is there and may be used."""

    def discard(self) -> None:
        """Take away what there is of a copy that is not whole."""

    def last(self, table: Table) -> Row | None:
        """The key of its last row."""

    def write(self, table: Table, rows: Sequence[Row]) -> None:
        """All of them or none, durable."""

    def finish(self) -> None:
        """The store may be used."""
