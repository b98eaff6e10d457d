"""Fifth gate: is there money left for this call? The same check stands before every retry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.policy.budget import NOTHING, LedgerDecision, Spent, check_ledger
from reenact.runtime.gates.answer import Approval, GateAnswer, Refusal
from reenact.runtime.money import reserved_by

if TYPE_CHECKING:
    from reenact.runtime.call.call import Call


async def decide(call: Call, required: int) -> tuple[GateAnswer, dict[str, str | None]]:
    """The budget's word, then the supervisor's, and the amounts that it was decided on.

    While a function is asked others go on: then the budget's word is asked again.
    """
    run, supervision = call.run, call.run.gates.supervision
    others_go_on = call.is_live and supervision.asks_a_function(call)
    try:
        if others_go_on:
            await run.money.keep(call.trace_id, required)
        decision, refusal = of_call(call, required)
        if refusal is not None and not call.is_live and run.source.passed_budget(call.step):
            refusal = None
        answer = refusal or await supervision.decide(call)
    finally:
        run.money.release(call.trace_id)  # nobody else runs before the decision stands in its place
    if others_go_on and isinstance(answer, Approval):
        decision, refusal = of_call(call, required)
        answer = refusal or answer
    if decision.alert or decision.warning:
        warn(call, decision)
    return answer, decision.meta()


def of_call(call: Call, required: int) -> tuple[LedgerDecision, Refusal | None]:
    """Before the call is approved."""
    money, model = call.run.money, call.rate.model
    served = None if call.is_live else call.run.source.served_spending(call.step)
    day, on_model = served or money.outside_spent(model)
    return check(call, required, run=money.spent(), step=Spent(), day=day, model_spent=on_model)


def no_money_for_attempt(call: Call) -> Refusal | None:
    """Why another dispatch may not be made, by what is spent and set apart now."""
    money, live = call.run.money, call.is_live
    if money.has_no_limit:
        return None
    day, on_model = money.outside_spent(call.rate.model, call.trace_id) if live else (NOTHING, NOTHING)
    _, refusal = check(
        call,
        reserved_by(call.trace),
        run=money.spent(besides=call.trace_id),
        step=Spent(call.trace.cost_exact),
        day=day,
        model_spent=on_model,
    )
    if live or refusal is not None or not money.reaches_beyond_the_run:
        return refusal
    reason = call.run.source.no_money_left(call.trace)  # of the day or the model: what others spent is served
    return None if reason is None else Refusal("budget", "ERR_BUDGET_EXCEEDED", reason, {"refused_by": "day"})


def check(
    call: Call, required: int, *, run: Spent, step: Spent, day: Spent, model_spent: Spent
) -> tuple[LedgerDecision, Refusal | None]:
    decision = check_ledger(
        call.run.money.policy, required, run=run, step=step, day=day, model=call.rate.model, model_spent=model_spent
    )
    if decision:
        return decision, None
    details: dict[str, object] = {"refused_by": decision.refused_by, "reason": decision.reason}
    message = f"{decision.reason}{decided_by(call, str(decision.refused_by))}"
    return decision, Refusal("budget", "ERR_BUDGET_EXCEEDED", message, details, exact=decision.meta())


def decided_by(call: Call, limit: str) -> str:
    """Where the amount is the one that the host's policy says."""
    key, policy = (
        {"run": "budget_cents", "step": "per_step_cents", "day": "per_day_cents"}.get(limit),
        call.run.money.policy,
    )
    if key is None:
        return ""
    most = {"run": policy.per_run_cents, "step": policy.per_step_cents, "day": policy.per_day_cents}[limit]
    return call.run.gates.decided_by(f"money.{key}", lambda ceiling: getattr(ceiling, key) == most)


def warn(call: Call, decision: LedgerDecision) -> None:
    """At the alert threshold, or over a soft limit: somebody should know, and the call goes on."""
    percent = call.run.money.policy.alert_percent
    reason = decision.reason if decision.warning else f"at {percent} % of a budget or beyond"
    call.run.listeners.tell(call.notice("budget_alert", message=reason))
