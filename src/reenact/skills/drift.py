"""Skill drift: definitions that changed under a version that a plan had pinned."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from reenact.errors import PlanError
from reenact.skills.registry import Registry


class Drift(msgspec.Struct, frozen=True):
    """A pinned `id@version` whose definition today is another one, or is gone (`found` is None)."""

    skill: str
    pinned: str
    found: str | None

    @property
    def message(self) -> str:
        if self.found is None:
            return f"{self.skill} is pinned, but no longer registered"
        return f"{self.skill} changed its definition: pinned {self.pinned[:12]}, now {self.found[:12]}"


def refuse_changed_skills(pinned: Mapping[str, str], registry: Registry, *, source: str) -> None:
    """What a skill declares decides how it is called. One that is absent is for the gate to refuse."""
    changed = [found for found in drift(pinned, registry) if found.found is not None]
    if changed:
        raise PlanError(
            f"{source}: {changed[0].message}; pin the plan again, or bring back the declaration that it was pinned with"
        )


def drift(pinned: Mapping[str, str], registry: Registry) -> list[Drift]:
    """Every pinned skill (`id@version` → definition digest) that is not what the registry holds, by name."""
    now = {name: registry.resolve(*name.split("@", 1)) for name in sorted(pinned) if name in registry}
    return [
        Drift(skill=name, pinned=digest, found=now[name].digest if name in now else None)
        for name, digest in sorted(pinned.items())
        if name not in now or not now[name].is_defined_as(digest)
    ]
