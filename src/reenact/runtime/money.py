"""The money of one run: what it has spent, what approved calls may still cost, what is kept for those being decided.

A call reserves what its decision says it may cost, from its approval to its end, so what is reserved stands in the
journal: it is the same after a crash and in a replay.
"""

from __future__ import annotations

import asyncio
from typing import cast

from reenact.journal.fold import TraceFold
from reenact.journal.run_fold import RunFold
from reenact.policy.budget import BudgetPolicy, Spent
from reenact.policy.cost import PICODOLLARS_PER_CENT


class Ledger:
    """One run's. It is asked only where there is a limit."""

    def __init__(self, fold: RunFold, policy: BudgetPolicy) -> None:
        self._fold = fold
        cents = policy.per_run_cents if policy.mode == "hard" else None
        self._limit = None if cents is None else cents * PICODOLLARS_PER_CENT
        self._kept: dict[str, tuple[int, asyncio.Future[None]]] = {}

    def spent(self, besides: str | None = None) -> Spent:
        return Spent(self._fold.spent_exact, self.reserved(besides))

    def reserved(self, besides: str | None = None) -> int:
        """By calls that were approved and have not ended."""
        approved = (trace for trace in self._fold.open.values() if trace.decision is not None)
        return sum(reserved_by(trace) for trace in approved if trace.trace_id != besides)

    async def keep(self, trace_id: str, required: int) -> None:
        """Keep what a call may cost, until `release`; where the run cannot pay for it, nothing is kept.

        Where only what is kept for others stands in the way, what comes of them is waited for. So a no depends on
        approvals and costs alone, which are recorded, and never on who happened to be asked about meanwhile.
        """
        while self._limit is not None and self.spent().total + self.kept + required > self._limit:
            if self.spent().total + required > self._limit:
                return
            await asyncio.shield(next(iter(self._kept.values()))[1])
        self._kept[trace_id] = (required, asyncio.get_running_loop().create_future())

    @property
    def kept(self) -> int:
        return sum(exact for exact, _ in self._kept.values())

    def release(self, trace_id: str) -> None:
        """The call is decided, or will not be decided here: whoever waits looks again."""
        kept = self._kept.pop(trace_id, None)
        if kept is not None and not kept[1].done():
            kept[1].set_result(None)


def reserved_by(trace: TraceFold) -> int:
    """What each attempt reserves: as the decision recorded it, so the same after a crash and in a replay."""
    decided = trace.decision
    assert decided is not None
    recorded = cast("dict[str, object]", decided.meta).get("required_exact")
    return int(recorded) if isinstance(recorded, str) else 0
