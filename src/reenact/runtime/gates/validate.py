"""First gate: does the skill exist in exactly this version, and can it be called with these parameters?"""

from __future__ import annotations

from collections.abc import Mapping

from reenact.errors import SkillNotFound
from reenact.runtime.gates.verdict import Refusal
from reenact.runtime.steps import PlannedStep
from reenact.skills.registry import Registry


def check(
    step: PlannedStep, parameters: Mapping[str, object], registry: Registry, unresolved: str | None
) -> Refusal | None:
    """`parameters` are those that the skill gets, with secrets as references."""
    if unresolved is not None:
        return Refusal("validate", "ERR_REFERENCE_UNRESOLVED", unresolved, {"problems": [unresolved]})
    if step.skill is None:
        return Refusal("validate", "ERR_SKILL_NOT_FOUND", absent(step, registry))
    problems = step.skill.validate(parameters)
    if problems:
        return Refusal(
            "validate", "ERR_VALIDATION_FAILED", f"{step.reference}: {problems[0]}", {"problems": list(problems[:20])}
        )
    return None


def absent(step: PlannedStep, registry: Registry) -> str:
    """Nothing is substituted; the message says what there is."""
    try:
        if step.skill_version is None:
            registry.highest(step.skill_id)
        else:
            registry.resolve(step.skill_id, step.skill_version)
    except SkillNotFound as error:
        return str(error)
    return f"no skill {step.reference}"
