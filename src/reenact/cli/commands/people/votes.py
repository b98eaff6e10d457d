"""`reenact approve` and `reenact deny`: a person's vote about a call that waits for one."""

from __future__ import annotations

from typing import Annotated

import typer

from reenact.cli.advice import Advice
from reenact.cli.options import (
    HostPolicyOption,
    JsonOption,
    ReasonOption,
    RunArgument,
    SkillsOption,
    StoreOption,
    TrustOption,
    WhoOption,
)
from reenact.cli.screens.printing import say

StepArgument = Annotated[str | None, typer.Argument(help="Which step, when the run waits about several.")]


def approve(
    run: RunArgument,
    step: StepArgument = None,
    reason: ReasonOption = "",
    who: WhoOption = None,
    store: StoreOption = None,
    skills: SkillsOption = None,
    host_policy: HostPolicyOption = None,
    trust_plan: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Approve a call that waits. `reenact resume` then goes on with the run, with the same skills and policy."""
    advice = Advice(store, skills or (), host_policy, trust_plan)
    vote(run, step, advice, approved=True, reason=reason, who=who, as_json=as_json)


def deny(
    run: RunArgument,
    step: StepArgument = None,
    reason: ReasonOption = "",
    who: WhoOption = None,
    store: StoreOption = None,
    skills: SkillsOption = None,
    host_policy: HostPolicyOption = None,
    trust_plan: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Deny a call that waits. `reenact resume` then goes on with the run: the step ends with ERR_POLICY_VIOLATION."""
    advice = Advice(store, skills or (), host_policy, trust_plan)
    vote(run, step, advice, approved=False, reason=reason, who=who, as_json=as_json)


def vote(
    run: str, step: str | None, advice: Advice, *, approved: bool, reason: str, who: str | None, as_json: bool
) -> None:
    """Record the vote, and say who goes on with the run."""
    import asyncio

    from reenact.cli.options import existing_store, open_runtime, require_reason
    from reenact.cli.screens.printing import print_json
    from reenact.runtime.people.decisions import vote as record_vote

    require_reason(reason)
    existing_store(advice.store).close()
    runtime = open_runtime(advice.store, None)
    row = runtime.store.find_run(run)
    step_id = asyncio.run(record_vote(runtime, row.run_id, step, approve=approved, reason=reason, who=who))
    decision = "approved" if approved else "denied"
    if as_json:
        print_json({"run_id": row.run_id, "step_id": step_id, "decision": decision})
    else:
        say(f"step {step_id} of run {row.run_id} is {decision}; {advice.after_a_word(runtime, row)}")
