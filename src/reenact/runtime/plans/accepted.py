"""Changed skills that are accepted: somebody lets a run go on with another definition than it began with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from reenact.errors import UsageError
from reenact.skills.from_schema import MADE
from reenact.skills.registry import Registry
from reenact.skills.skill import Skill


class Accepted:
    """Skills by id or `id@version`, and who said so. It holds while this process works on the run."""

    def __init__(self, skills: Iterable[str] = (), who: str | None = None) -> None:
        if isinstance(skills, str):
            raise UsageError(f"accept_changed is a list of skills; write accept_changed=[{skills!r}]")
        self.skills = frozenset(skills)
        self.who = who
        self.noted: set[str] = set()
        """By `id@version`, those that the journal tells of already."""

    def covers(self, skill_id: str, reference: str) -> bool:
        return skill_id in self.skills or reference in self.skills

    def instead(self, skill_id: str, version: str, registry: Registry) -> Skill | None:
        """What stands for an absent version that was made of a definition: the definition of today, where accepted."""
        return changed(skill_id, version, registry) if self.covers(skill_id, f"{skill_id}@{version}") else None


def changed(skill_id: str, version: str, registry: Registry) -> Skill | None:
    """Of a skill whose versions are made of its definition: the one that is there. Others are never substituted."""
    made = [known for known in registry.versions(skill_id) if MADE.fullmatch(known)] if MADE.fullmatch(version) else []
    return registry.resolve(skill_id, made[-1]) if made else None


NOTHING_ACCEPTED: Final = Accepted()
