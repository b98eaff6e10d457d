"""What a witness asks of its own small store."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Seen(NamedTuple):
    """A head that the witness put its name to, when, and the checkpoint as it came."""

    size: int
    root: bytes
    time: int
    note: bytes


class Witnessed(Protocol):
    name: str

    def latest(self, origin: str) -> Seen | None: ...
    def logs(self) -> list[tuple[str, int]]:
        """(origin, largest size) of those that it knows."""

    def advance(self, origin: str, judge: Callable[[Seen | None], Seen | None]) -> None:
        """In one transaction: what `judge` gives for the latest head of a log is durable when this returns."""

    def close(self) -> None: ...
