"""The skills that a plan may use, as planners see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reenact.contracts.skill import SkillMetadata
from reenact.errors import SkillNotFound
from reenact.policy.lists import lists, lists_skill
from reenact.skills.registry import Registry
from reenact.skills.skill import Skill


class Manifest:
    """Skills by id and version. What a plan's context forbids is not in it, so that nobody plans with it."""

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._registry = Registry(skills)

    @classmethod
    def of(cls, registry: Registry, context: Mapping[str, Any] | None = None) -> Manifest:
        """Every skill of the registry that the context of a plan, and the profile in it, allow."""
        context = context or {}
        profile = context.get("profile") or {}
        allowed = [
            names for names in (context.get("allowed_skills"), profile.get("allowed_skills")) if names is not None
        ]
        denied = profile.get("denied_skills") or ()
        forbidden = profile.get("disallowed_side_effects") or ()
        return cls(
            skill
            for skill in registry
            if all(_named(skill, names) for names in allowed)
            and not _named(skill, denied)
            and not any(lists(forbidden, each) for each in skill.metadata.side_effects)
        )

    def find(self, skill_id: str, version: str | None) -> Skill:
        """The skill, in its highest version where none is named; `SkillNotFound` says what there is."""
        return self._registry.highest(skill_id) if version is None else self._registry.resolve(skill_id, version)

    def described(self) -> list[dict[str, Any]]:
        """What a model is told about each skill: the highest version of each id, by id."""
        highest = {skill.skill_id: skill for skill in self}  # they come in the order of their versions
        return [describe(highest[skill_id].metadata) for skill_id in sorted(highest)]

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._registry)

    def __len__(self) -> int:
        return len(self._registry)

    def __contains__(self, skill_id: str) -> bool:
        try:
            self._registry.highest(skill_id)
        except SkillNotFound:
            return False
        return True


def _named(skill: Skill, names: Iterable[str]) -> bool:
    return lists_skill(names, skill.metadata.reference)


def describe(meta: SkillMetadata) -> dict[str, Any]:
    return {
        "skill_id": meta.skill_id,
        "skill_version": meta.version,
        "description": meta.description,
        "class": "read" if meta.tool_class == "read" else "write",
        "side_effects": list(meta.side_effects),
        "parameters": {key: value for key, value in meta.input_schema.items() if key != "$schema"},
        "result": {key: value for key, value in meta.output_schema.items() if key != "$schema"},
    }
