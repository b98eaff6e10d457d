"""What an engine answers when its store is looked at. Nothing is changed, and nothing is made where nothing is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, Self

from reenact.store.base import OpenRun
from reenact.store.doctor.findings import Finding
from reenact.store.evidence import RunEvidence
from reenact.store.log.log import ReadLog


class LatestTimes(NamedTuple):
    started_at: str | None
    expires_ms: int | None


class Examination(Protocol):
    """One look at a store, in the order of these verbs. What cannot be asked raises a `ReenactError`."""

    name: str
    """What advice says is to be copied away or restored."""
    is_readable: bool
    """After `look_inside`: whether the rows can be asked for."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    def look_from_outside(self) -> tuple[list[Finding], bool]:
        """What is seen before anything is opened, and whether there is something to open."""

    def look_inside(self) -> Iterator[Finding]:
        """Whether it can be opened, its schema, its guards, and the engine's own check."""

    def look_around(self) -> Iterator[Finding]:
        """What it stands on and what lies beside it: disk, permissions, log, key."""

    def newest_runs(self, count: int) -> Sequence[RunEvidence]: ...
    def latest_times(self) -> LatestTimes:
        """What the table of runs says of the latest start, and of the latest end of a lease."""

    def status_counts(self) -> dict[str, int]: ...
    def open_runs(self) -> Sequence[tuple[RunEvidence, OpenRun]]:
        """Those that have not ended, the oldest first."""

    def forgotten_runs(self) -> int:
        """How many runs the journal has that the table of runs does not."""

    def seal_log(self) -> ReadLog:
        """The log that its seals are in."""

    def unsealed_runs(self) -> list[str]:
        """Ids of runs that are called ended and have no seal."""
