"""Parked: a run stops without an end, and can go on later. And what only waits for a thread: `LargeValue`."""

from __future__ import annotations

from collections.abc import Callable

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import RunStatus
from reenact.runtime.effects.threads import THREADS


class Parked(Exception):  # not an error: nothing failed
    """The run stops without an end: it waits for a person, or is held."""

    def __init__(self, status: RunStatus, reason: str) -> None:
        super().__init__(reason)
        self.status: RunStatus = status


class InDoubt(Parked):
    """A call may or may not have happened, and a person is to look."""

    def __init__(self, reason: str) -> None:
        super().__init__("held", reason)


class Lost(InDoubt):
    """That is on record, with what its caller is told: a session gives `outcome` and goes on, a plan is held."""

    def __init__(self, reason: str, outcome: StructuredOutcome) -> None:
        super().__init__(reason)
        self.outcome = outcome


class LargeValue(Exception):  # a question, not an error
    """A value that is too large to be searched for secrets here: whoever can wait awaits `search`, and asks again."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__("too large to be searched here")
        self._work = work

    async def search(self) -> None:
        """In a thread."""
        await THREADS.run(self._work)
