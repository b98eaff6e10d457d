"""Checking a plan against the skills at hand: every mistake is told, each with its place."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from reenact.contracts.plan import Step, plan_from_document
from reenact.contracts.references import (
    UnresolvedReference,
    is_secret,
    references_in,
    secret_mistakes,
    secret_names,
    split_path,
    with_unknowns,
)
from reenact.errors import PlanError, SkillNotFound
from reenact.planners.manifest import Manifest
from reenact.policy.literals import literal_secrets
from reenact.policy.redaction import SecretRules
from reenact.skills.schema.paths import leads_somewhere
from reenact.skills.skill import Skill

AllowedSecrets = Mapping[str, Collection[str] | None]
"""Names of secrets that a plan may refer to, each with the skills that may be given it; None for any skill."""


def problems(
    document: object, manifest: Manifest, *, secrets: AllowedSecrets | None = None, own_words: bool = False
) -> list[str]:
    """What is wrong with a plan; an empty list when it can be run.

    `secrets` limits which secrets it may name (None: any, the plan is the host's own). `own_words` says that a model
    wrote it: then every key that begins with `$` is looked at.
    """
    try:
        plan, _ = plan_from_document(document)
    except PlanError as error:
        return [str(error)]
    if not plan.steps:
        return ["$.steps: there is no step; a plan does something"]
    found: list[str] = []
    earlier: dict[str, int] = {}
    outputs: dict[str, Skill | None] = {}
    for index, step in enumerate(plan.steps):
        where = f"$.steps[{index}]"
        try:
            skill = manifest.find(step.skill_id, step.skill_version)
        except SkillNotFound as error:
            found.append(f"{where}.skill_id: {error}")
            skill = None
        found += in_references(step, where, earlier, outputs if own_words else {})
        found += in_parameters(step, where, skill) if skill is not None else ()
        found += in_secrets(step, where, secrets, own_words=own_words)
        earlier[step.step_id], outputs[step.step_id] = index, skill
    return found


def in_parameters(step: Step, where: str, skill: Skill) -> Iterator[str]:
    """Against the skill's schema; what a reference will bring is not known, and may be anything."""
    guessed = with_unknowns(step.parameters)
    assert isinstance(guessed, dict)
    for problem in skill.validate(guessed):
        pointer, _, what = problem.partition(": ")
        yield f"{where}.parameters{pointer.rstrip('/')}: {what}"


def in_references(
    step: Step, where: str, earlier: Mapping[str, int], outputs: Mapping[str, Skill | None]
) -> Iterator[str]:
    """A reference leads to a step that comes before, and where its skill is known, to what that declares to return."""
    for place, path in references_in(step.parameters, f"{where}.parameters"):
        try:
            name, parts = split_path(path, earlier, "")
        except UnresolvedReference:
            known = ", ".join(list(earlier)[-20:]) or "none, it is the first"
            yield f"{place}: {{{{{path}}}}} names no earlier step; earlier steps: {known}"
            continue
        skill = outputs.get(name)
        if skill is not None and not leads_somewhere(skill.metadata.output_schema, parts):
            yield f"{place}: {{{{{path}}}}} leads nowhere: {skill.metadata.reference} does not declare to return that"


def in_secrets(step: Step, where: str, allowed: AllowedSecrets | None, *, own_words: bool) -> Iterator[str]:
    for place in literal_secrets(step.parameters, SecretRules()):
        yield f'{where}.parameters{place}: looks like a secret; write {{"$secret": "NAME"}} there'
    yield from secret_mistakes(step.parameters, f"{where}.parameters")
    if allowed is not None:
        offered = sorted(name for name, users in allowed.items() if users is None or step.skill_id in users)
        for name in secret_names(step.parameters):
            if name not in offered:
                known = ", ".join(offered) or "none"
                yield f"{where}.parameters: the secret {name} is not offered to {step.skill_id}; offered: {known}"
    if own_words:
        for place in reserved_keys(step.parameters, f"{where}.parameters"):
            yield f"{place}: keys that begin with $ are reserved"


def reserved_keys(value: Any, where: str) -> Iterator[str]:
    if is_secret(value):
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if key.startswith("$"):
                yield f"{where}/{key}"
            yield from reserved_keys(item, f"{where}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from reserved_keys(item, f"{where}/{index}")
