"""Part of the second gate: how many calls of a run may reach out.

A call is external when it does more than read, as its risk level says, or when its skill declares side effects: a read
that goes over the network. It counts once, from its approval on, however often it is attempted and whatever becomes of
it; but not where its key answers it, for then nothing is sent. What is counted stands in the journal, so that it is the
same after a crash and in a replay.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reenact.contracts.artifacts import RiskLevel
from reenact.contracts.plan import Context
from reenact.journal.run_fold import RunFold
from reenact.runtime.gates.answer import Refusal
from reenact.runtime.plans.steps import PlannedStep, RunPlan

if TYPE_CHECKING:
    from reenact.runtime.call.call import Call


@dataclass(slots=True)
class ExternalCalls:
    """The limit of one run. What passes is claimed until it is decided, so that parallel calls do not all pass."""

    most: int
    fold: RunFold
    plan: RunPlan
    _claims: dict[str, asyncio.Future[None]] = field(default_factory=dict)

    async def check(self, call: Call) -> Refusal | None:
        """Refuse one too many, or claim a place. Where the last places are claimed, what comes of them is waited for.

        So a refusal depends on approvals alone, which are recorded, and never on who happened to be asked meanwhile.
        """
        request = call.trace.request
        assert request is not None
        if not is_external(self.plan, call.step, request.risk_level):
            return None
        while self.made() + len(self._claims) >= self.most:
            if self.made() >= self.most:
                by = call.run.gates.decided_by(
                    "max_external_calls", lambda ceiling: ceiling.max_external_calls == self.most
                )
                return one_too_many(self.most, by)
            await asyncio.shield(next(iter(self._claims.values())))
        self._claims[call.trace_id] = asyncio.get_running_loop().create_future()
        return None

    def release(self, trace_id: str) -> None:
        """The call is decided, or will not be decided here: whoever waits looks again."""
        claim = self._claims.pop(trace_id, None)
        if claim is not None and not claim.done():
            claim.set_result(None)

    def made(self) -> int:
        """External calls that were approved in this run."""
        reads = self.fold.approved_reads.items()
        return self.fold.approved_writes + sum(n for name, n in reads if self.plan.has_side_effects(name))


def limit(context: Context, fold: RunFold, plan: RunPlan) -> ExternalCalls | None:
    """None where the agent's profile sets no limit: then nothing is counted anew."""
    most = None if context.profile is None else context.profile.max_external_calls
    return None if most is None else ExternalCalls(most, fold, plan)


def is_external(plan: RunPlan, step: PlannedStep, risk_level: RiskLevel) -> bool:
    return risk_level != "READ" or plan.has_side_effects(step.reference, step.skill)


def one_too_many(most: int, decided_by: str) -> Refusal:
    return Refusal(
        "permission",
        "ERR_QUOTA_EXCEEDED",
        f"this agent may make {most} external calls in a run{decided_by}",
        {"max_external_calls": most},
    )
