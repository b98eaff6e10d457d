"""The money of one run: its budget, what it has spent, and what its calls may still cost.

A call reserves what its decision says it may cost, from its approval to its end, so what is reserved stands in the
journal: it is the same after a crash and in a replay.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import cast

from msgspec import UNSET, UnsetType

from reenact.journal.fold import TraceFold
from reenact.policy.budget import NOTHING, Spent, budget_policy
from reenact.policy.cost import PICODOLLARS_PER_CENT
from reenact.runtime.plans.steps import RunPlan
from reenact.runtime.writing.writer import RunWriter
from reenact.store.base import Store
from reenact.values.clock import Clock


class Money:
    """What the budget gate asks before an approval, and dispatch before every attempt after the first."""

    def __init__(self, plan: RunPlan, journal: RunWriter, store: Store, clock: Clock) -> None:
        self.policy = budget_policy(plan.plan.context.budget_cents, plan.plan.context.budget)
        self.has_no_limit = self.policy.has_no_limit
        self.reaches_beyond_the_run = self.policy.reaches_beyond_the_run
        self._plan = plan
        self._fold = journal.fold
        self._journal = journal
        self._store = store
        self._clock = clock
        cents = self.policy.per_run_cents if self.policy.mode == "hard" else None
        self._limit = None if cents is None else cents * PICODOLLARS_PER_CENT
        self._kept: dict[str, tuple[int, asyncio.Future[None]]] = {}
        journal.reserved_exact = self.reserved
        journal.sets_apart = self.reaches_beyond_the_run

    # -- this run --------------------------------------------------------------------------------------------------

    def spent(self, besides: str | None = None) -> Spent:
        return Spent(self._plan.carried_exact + self._fold.spent_exact, self.reserved(besides))

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

    def place(self) -> int | UnsetType:
        """How many moments the run has had, where calls side by side share a limit; else nothing.

        What one is granted depends on what others have spent and reserved by then; a replay grants it in that order.
        """
        fold = self._fold
        if self.has_no_limit or fold.record is None or fold.record.kind != "session" or fold.moments < 0:
            return UNSET
        return fold.moments

    # -- the agent's other runs ------------------------------------------------------------------------------------

    def outside_spent(self, model: str | None, besides: str = "") -> tuple[Spent, Spent]:
        """What this agent spent today and may still spend on calls in flight, in all and on a model.

        What this run has staged counts as if it were written. What is set apart for the trace `besides` is left out.
        It is an input from outside, recorded with the decision.
        """
        if not self.reaches_beyond_the_run:
            return NOTHING, NOTHING
        whose, name = (self.today(), self._plan.plan.agent_id), model or ""
        staged = self._journal.staged_money(*whose, besides)
        settled = Counter(self._store.spent(*whose)) + staged.spent
        apart = Counter(self._store.set_apart(*whose, {besides, *staged.counted})) + staged.apart
        return Spent(settled.total(), apart.total()), Spent(settled[name], apart[name])

    def spend(self, model: str | None, exact: int) -> None:
        """Stage what an attempt cost: the agent's other runs count it too."""
        self._journal.spend(self.today(), self._plan.plan.agent_id, model or "", exact)

    def today(self) -> str:
        """By the clock of those who share the store."""
        return self._store.today(self._clock)


def reserved_by(trace: TraceFold) -> int:
    """What each attempt reserves: as the decision recorded it, so the same after a crash and in a replay."""
    decided = trace.decision
    assert decided is not None
    recorded = cast("dict[str, object]", decided.meta).get("required_exact")
    return int(recorded) if isinstance(recorded, str) else 0
