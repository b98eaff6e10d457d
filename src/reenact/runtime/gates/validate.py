"""First gate: does the skill exist in exactly this version, and can it be called with these parameters?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from reenact.contracts.model_mistakes import said_name, why_unusable
from reenact.errors import SkillNotFound
from reenact.runtime.effects.secrets import how_to_set
from reenact.runtime.gates.answer import Refusal
from reenact.runtime.parked import Parked
from reenact.runtime.plans.steps import PlannedStep
from reenact.skills.registry import Registry

if TYPE_CHECKING:
    from reenact.runtime.call.call import Call

TOLD: Final = 3
"""So many problems stand in the message; the outcome's details have the others."""


def check(call: Call) -> Refusal | None:
    """Whether the call can be made at all: its skill, its references, its parameters, the secrets in them."""
    step, registry = call.step, call.run.plan.registry
    if not call.plain and (refusal := model_mistake(step, call.parameters, registry)) is not None:
        return refusal
    if call.unresolved is not None:
        return Refusal("validate", "ERR_REFERENCE_UNRESOLVED", call.unresolved, {"problems": [call.unresolved]})
    if step.skill is None:
        return Refusal("validate", "ERR_SKILL_NOT_FOUND", absent(step, registry))
    if not (call.plain and step.skill.fits(call.parameters)) and (problems := step.skill.validate(call.parameters)):
        told = f"{step.reference}: {'; '.join(problems[:TOLD])}"
        return Refusal("validate", "ERR_VALIDATION_FAILED", told, {"problems": list(problems[:20])})
    if call.plain and step.caller_key is None and call.is_live:
        return None  # there is no secret in it
    return literal_secret(call) or missing_secret(call)


def literal_secret(call: Call) -> Refusal | None:
    """A secret of the host in the arguments is refused: it is bound by its name, and never written.

    What only looks like one is encrypted where it is written. A key that does would be written as it is.
    """
    key, redactor = call.step.caller_key, call.run.journal.book.redactor
    if key is not None and not redactor.is_name(key):
        return Refusal("validate", "ERR_VALIDATION_FAILED", "idempotency_key looks like a secret; take another")
    places = [] if call.plain else refused_places(call)
    if not places:
        return None
    # A plan names the secret where it stands, the host of a session binds it.
    instead = f'secrets={{"{places[0]}": "NAME"}}' if call.run.plan.literal else '{"$secret": "NAME"} there'
    advice = f"{places[0]} holds or held a secret of this host, which is not written to disk: write {instead}"
    return Refusal("validate", "ERR_VALIDATION_FAILED", advice, {"secret_at": places[:20]})


def refused_places(call: Call) -> list[str]:
    """Where the parameters hold the host's secrets, or a mark that stands for one: with that nothing can be called.

    In a session the mark may be the caller's own word, so in its replay the record tells.
    """
    run = call.run
    served = [] if call.is_live else run.source.secrets_refused(call.step)
    if served or (run.plan.literal and not call.is_live):
        return served
    return run.journal.book.redactor.places_of_known(call.parameters, marks=not run.plan.is_session)


def missing_secret(call: Call) -> Refusal | None:
    name = call.missing_secret()
    if name is None:
        return None
    message = f"the secret {name} is not set; {how_to_set(name)}"
    if call.is_live and call.run.read_from is not None and not call.run.plan.is_session:
        raise Parked("held", f"step {call.step.step_id}: {message}")  # what was begun elsewhere is not given up for it
    return Refusal("validate", "ERR_SECRET_UNAVAILABLE", message, {"secret": name})


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
