"""The candidate of a shadow run: the recorded plan with another policy, plan, skill version, model or value in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reenact.contracts.plan import plan_from_document
from reenact.errors import BeyondPolicy, UsageError
from reenact.record.recording import Recording
from reenact.replay.modes.changes import Changes, apply_changes, context_of
from reenact.runtime.effects.secrets import Secrets
from reenact.runtime.host_policy import HostPolicy, find_policy
from reenact.runtime.plans.pinning import pin_document
from reenact.skills.load import load_skills
from reenact.skills.registry import Registry
from reenact.skills.skill import Skill
from reenact.values.bounds import read_file
from reenact.values.canonical import parse_json
from reenact.values.clock import Clock, SystemClock

MODEL_SKILL = "llm_invoke"


@dataclass(frozen=True)
class Wanted:
    """What a candidate changes. `files` are plans, policies and skills, told apart by what they are."""

    files: Sequence[Path] = ()
    sets: Mapping[str, object] = field(default_factory=dict)
    model: str | None = None

    @property
    def label(self) -> str:
        """The changes in one line."""
        said = [path.name for path in self.files]
        said += [f"{name}={value}" for name, value in self.sets.items()]
        said += [] if self.model is None else [f"model {self.model}"]
        return ", ".join(said) or "nothing changed"


@dataclass(frozen=True)
class Candidate:
    """A pinned plan with the skills that decide in it. `refused` says why its policy lets nothing of it run."""

    label: str
    changes: Changes
    registry: Registry
    refused: str | None = None


def candidate_of(recording: Recording, registry: Registry, wanted: Wanted, *, clock: Clock | None = None) -> Candidate:
    """UsageError where nothing, or nothing that can be read, is given."""
    if not (wanted.files or wanted.sets or wanted.model):
        raise UsageError("say what the candidate is: --with FILE, --set PATH=VALUE or --model NAME")
    skills, plan, context, policy = read_files(wanted.files)
    new = own_skills(skills, registry)
    own = registry.extended(new)
    sets = {**wanted.sets, **model_sets(recording, wanted.model)}
    if plan is not None:
        if sets or context:
            raise UsageError(
                "a plan of the candidate's own says all that it wants: leave out what else changes the plan"
            )
        pinned = pin_document(plan, own, clock or SystemClock(), source="the candidate's plan")
        changes = Changes(pinned.document)
    else:
        changes = apply_changes(recording, sets, context or None)
        if new or wanted.model:
            ids = {skill.skill_id for skill in new}
            changes = Changes(moved(changes.document, own, ids, clock or SystemClock()), changes.outputs)
    if policy is None:
        return Candidate(wanted.label, changes, own)
    return within(recording, Candidate(wanted.label, changes, own), policy)


def read_files(
    files: Iterable[Path],
) -> tuple[list[Path], dict[str, object] | None, dict[str, object], HostPolicy | None]:
    skills: list[Path] = []
    plan: dict[str, object] | None = None
    context: dict[str, object] = {}
    policy: HostPolicy | None = None
    for path in files:
        if path.suffix == ".py":
            skills.append(path)
        elif path.suffix == ".toml":
            policy = find_policy(path)
        else:
            document = read_document(path)
            if "steps" in document:
                plan = document
            else:
                context |= document
    return skills, plan, context, policy


def read_document(path: Path) -> dict[str, object]:
    says = "a plan, fields of a plan's context as JSON, a policy as .toml, or skills as .py"
    try:
        document = parse_json(read_file(path), what=str(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be read'}; --with takes {says}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path}: no JSON object; --with takes {says}")
    return document


def own_skills(files: Iterable[Path], registry: Registry) -> list[Skill]:
    """Those of the candidate alone: what is declared here as it is there is no other skill."""
    found = Registry()
    for path in files:
        load_skills(str(path), found)
    here = registry.digests()
    return [skill for skill in found.all() if here.get(skill.reference) != skill.digest]


def model_sets(recording: Recording, model: str | None) -> dict[str, object]:
    """Another model for every step that asks one."""
    if model is None:
        return {}
    asked = [step.step_id for step in recording.plan.steps if step.skill_id == MODEL_SKILL]
    if not asked:
        raise UsageError(f"--model {model}: run {recording.run_id} has no step of {MODEL_SKILL}")
    return {f"steps.{step_id}.parameters.model": model for step_id in asked}


def moved(document: dict[str, object], registry: Registry, new: set[str], clock: Clock) -> dict[str, object]:
    """The steps of these skills in the highest version that there is, pinned as it declares itself."""
    bare = deepcopy(document)
    pins: Any = context_of(bare).pop("pins")
    steps: Any = bare["steps"]
    for step in steps:
        if step["skill_id"] in new:
            step.pop("skill_version", None)
    fresh = pin_document(bare, registry, clock, source="the candidate's plan").document
    made: Any = context_of(fresh)["pins"]
    for name in ("skills", "retry"):
        made[name] = {**pins[name], **made[name]}
    made["prices"] = {
        "models": {**made["prices"]["models"], **pins["prices"]["models"]},
        "skills": {**pins["prices"]["skills"], **made["prices"]["skills"]},
        "version": pins["prices"]["version"],
    }
    made["salt"] = pins["salt"]
    return fresh


def within(recording: Recording, candidate: Candidate, policy: HostPolicy) -> Candidate:
    """The candidate under another policy of the host: narrowed by it, or refused."""
    document = candidate.changes.document
    plan = plan_from_document(document, source="the candidate's plan")[0]
    try:
        if recording.record.kind == "session":
            context = policy.admit_session(plan.agent_id, context_of(document))
            document = {**document, "context": context}
        else:
            document = policy.admit(plan, document, Secrets(), source="the candidate's plan")[1]
    except BeyondPolicy as beyond:
        return Candidate(candidate.label, candidate.changes, candidate.registry, str(beyond))
    return Candidate(candidate.label, Changes(document, candidate.changes.outputs), candidate.registry)
