"""Second gate: may this agent call this skill at all?"""

from __future__ import annotations

from reenact.contracts.plan import Context
from reenact.runtime.gates.verdict import Refusal
from reenact.runtime.steps import PlannedStep


def check(step: PlannedStep, context: Context, dispatched: int) -> Refusal | None:
    """`dispatched` counts the calls that this run has already sent out."""
    if context.allowed_skills is not None and not named(step, context.allowed_skills):
        return refuse(f"{step.skill_id} is not among the plan's allowed_skills", {"allowed": context.allowed_skills})
    profile = context.profile
    if profile is None:
        return None
    if named(step, profile.denied_skills):
        return refuse(f"{step.skill_id} is denied to this agent")
    if profile.allowed_skills is not None and not named(step, profile.allowed_skills):
        return refuse(f"{step.skill_id} is not among the skills of this agent", {"allowed": profile.allowed_skills})
    declared = step.skill.metadata.side_effects if step.skill is not None else ()
    forbidden = sorted(set(declared) & set(profile.disallowed_side_effects))
    if forbidden:
        return refuse(f"{step.skill_id} has side effects that this agent may not have", {"side_effects": forbidden})
    if declared and profile.max_external_calls is not None and dispatched >= profile.max_external_calls:
        return Refusal(
            "permission",
            "ERR_QUOTA_EXCEEDED",
            f"this agent may make {profile.max_external_calls} external calls in a run",
            {"max_external_calls": profile.max_external_calls},
        )
    return None


def named(step: PlannedStep, skills: list[str]) -> bool:
    """A list may name a skill in all its versions, or one of them."""
    return step.skill_id in skills or step.reference in skills


def refuse(message: str, details: dict[str, object] | None = None) -> Refusal:
    return Refusal("permission", "ERR_PERMISSION_DENIED", message, details or {})
