"""Fourth gate: is there money left for this call? The same check stands before every retry."""

from __future__ import annotations

from reenact.policy.budget import BudgetPolicy, LedgerDecision, Spent, check_ledger
from reenact.runtime.gates.verdict import Refusal


def check(
    policy: BudgetPolicy, required: int, *, run: Spent, step: Spent, day: Spent, model: str | None, model_spent: Spent
) -> tuple[LedgerDecision, Refusal | None]:
    decision = check_ledger(policy, required, run=run, step=step, day=day, model=model, model_spent=model_spent)
    if decision:
        return decision, None
    refusal = Refusal(
        "budget",
        "ERR_BUDGET_EXCEEDED",
        decision.reason,
        {"refused_by": decision.refused_by, "reason": decision.reason},
        exact=decision.meta(),
    )
    return decision, refusal
