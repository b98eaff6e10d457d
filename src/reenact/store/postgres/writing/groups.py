"""What of a group is written together: units that look nothing up, those that do, and those that nobody waits for.

Each part keeps the order of the group, and a run has one unit in each turn: so units take effect in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reenact.store.base import Lease, Unit

Work = tuple[Unit, Lease | None, str]
"""A unit, the lease that it is written under, and whose that is."""
LARGE = 8 * 1024 * 1024
"""From here on the values go first, before the run is locked."""


class Turn:
    """Places in the group, in the order in which they are written."""

    def __init__(self) -> None:
        self.plain: list[int] = []
        """In one round trip."""
        self.locking: list[int] = []
        """In one transaction that takes its locks first."""
        self.alone: list[int] = []
        """Each in a transaction of its own: large ones, and money that is set apart, which counts what was before."""
        self._runs: set[str] = set()

    def add(self, at: int, unit: Unit) -> bool:
        """False where it has to wait for the next turn."""
        locks = needs_locks(unit)
        if unit.run_id in self._runs or (self.alone and (locks or unit.spent or unit.ended)):
            return False
        self._runs.add(unit.run_id)
        part = self.alone if is_alone(unit) else self.locking if locks else self.plain
        part.append(at)
        return True


def turns(units: Sequence[Work]) -> Iterator[Turn]:
    turn = Turn()
    for at, (unit, _, _) in enumerate(units):
        if not turn.add(at, unit):
            yield turn
            turn = Turn()
            turn.add(at, unit)
    yield turn


def needs_locks(unit: Unit) -> bool:
    """Whether something has to be read before it can be written, or it is so large that nobody should wait for it."""
    looks_up = unit.reservations or unit.completions or unit.seal is not None or session_of(unit) is not None
    return bool(looks_up) or is_alone(unit)


def is_alone(unit: Unit) -> bool:
    return bool(unit.earmarks) or size_of(unit) >= LARGE


def session_of(unit: Unit) -> str | None:
    return None if unit.new_run is None else unit.new_run.session


def size_of(unit: Unit) -> int:
    return len(unit.body) + sum(len(payload.envelope) for payload in unit.payloads)
