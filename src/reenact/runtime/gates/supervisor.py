"""Last gate: somebody says yes. By default the plan itself; by risk a person; or the host's own function."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from reenact.contracts.artifacts import RiskLevel
from reenact.contracts.records import Vote
from reenact.errors import PlanError
from reenact.runtime.gates.verdict import Approval, NeedsApproval, Refusal, Verdict


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a supervisor function is shown."""

    run_id: str
    step_id: str
    skill_id: str
    skill_version: str | None
    risk_level: RiskLevel
    parameters: dict[str, object]
    agent_id: str
    goal: str
    spent_cents: int


SupervisorFunction = Callable[[Proposal], "bool | str | Awaitable[bool | str]"]


def by_vote(vote: Vote) -> Verdict:
    if vote.decision == "APPROVE":
        return Approval("person", vote=str(vote.digest))
    return Refusal("supervisor", "ERR_POLICY_VIOLATION", f"denied by {vote.who}", vote=str(vote.digest))


def by_risk(proposal: Proposal) -> Verdict:
    """`ask`: reading needs nobody; writing does."""
    if proposal.risk_level == "READ":
        return Approval("policy")
    return NeedsApproval(f"step {proposal.step_id} would run {proposal.skill_id} ({proposal.risk_level})")


async def by_function(function: SupervisorFunction, proposal: Proposal) -> Verdict:
    """A function says True, False, or "ask" for a person. Anything else, and any failure, is a no."""
    try:
        answer = function(proposal)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:  # noqa: BLE001  # a supervisor that fails has not approved
        return Refusal(
            "supervisor", "ERR_POLICY_VIOLATION", f"the supervisor failed with {type(error).__name__}",
            {"supervisor_error": type(error).__name__},
        )  # fmt: skip
    if answer is True:
        return Approval("policy")
    if answer == "ask":
        return NeedsApproval(f"the supervisor asks for a person about step {proposal.step_id}")
    return Refusal("supervisor", "ERR_POLICY_VIOLATION", "the supervisor refused")


def load_supervisor(name: str) -> SupervisorFunction | None:
    """The function that a plan names as `module:function`; None for `auto` and `ask`."""
    if name in ("auto", "ask"):
        return None
    module_name, colon, attribute = name.partition(":")
    if not colon:
        raise PlanError(f"supervisor {name!r} is neither auto, ask, nor module:function")
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise PlanError(f"supervisor {name!r} cannot be loaded: {error}") from None
    if not callable(function):
        raise PlanError(f"supervisor {name!r} is not a function")
    checked: SupervisorFunction = function
    return checked
