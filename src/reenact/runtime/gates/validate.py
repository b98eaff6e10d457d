"""First gate: does the skill exist in exactly this version, and can it be called with these parameters?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reenact.contracts.model_mistakes import said_name, why_unusable
from reenact.errors import SkillNotFound
from reenact.runtime.gates.verdict import Refusal
from reenact.runtime.plans.steps import PlannedStep
from reenact.skills.registry import Registry

TOLD: Final = 3
"""So many problems stand in the message; the outcome's details have the others."""


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
            "validate",
            "ERR_VALIDATION_FAILED",
            f"{step.reference}: {'; '.join(problems[:TOLD])}",
            {"problems": list(problems[:20])},
        )
    return None


def model_mistake(step: PlannedStep, parameters: Mapping[str, object], registry: Registry) -> Refusal | None:
    """`parameters` are those that were recorded: a session marks in them what a model got wrong."""
    name = said_name(parameters)
    if name is not None and step.skill is None:
        return Refusal("validate", "ERR_SKILL_NOT_FOUND", nobody_called(name, registry))
    why = why_unusable(parameters)
    if why is not None and step.skill is not None:
        return Refusal("validate", "ERR_VALIDATION_FAILED", f"{step.reference}: {why}", {"problems": [why]})
    return None


def nobody_called(name: str, registry: Registry) -> str:
    try:
        registry.highest(name)
    except SkillNotFound as error:
        return str(error) if name.isprintable() else f"no skill is called {name!r}"
    return f"no skill is called {name!r}"


def absent(step: PlannedStep, registry: Registry) -> str:
    """Nothing is substituted; the message says what there is."""
    try:
        if step.skill_version is None:
            registry.highest(step.skill_id)
        else:
            registry.resolve(step.skill_id, step.skill_version)
    except SkillNotFound as error:
        return str(error)
    return f"step {step.step_id} names no version of {step.skill_id}"
