"""The registry of skills: by exact `id@version`, several versions side by side."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
from collections.abc import Iterable, Iterator

from reenact.contracts.skill import precedence, split_skill_id
from reenact.errors import SkillDeclarationError, SkillNotFound
from reenact.skills.home import home_of
from reenact.skills.skill import Skill

# Built-ins are found by the name of their module, as anybody's skills are: this layer knows none of them.
BUILTINS = "reenact.builtin.catalogue"


class Declared:
    """A skill that a module declares, imported when it is first asked for: most programs need few of them."""

    def __init__(self, skill_id: str, module: str) -> None:
        self._skill_id = skill_id
        self._module = module
        self._skill: Skill | None = None

    def load(self) -> Skill:
        if self._skill is None:
            skill = getattr(importlib.import_module(self._module), self._skill_id)
            assert isinstance(skill, Skill)
            skill.origin = skill.origin or BUILTINS
            self._skill = skill
        return self._skill


class Registry:
    """Skills by id and version. Nothing is ever substituted for a version that is absent."""

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self._skills: dict[str, dict[str, Skill | Declared]] = {}
        """By id, then by version in ascending order; of builds of one version the last to come is the last."""
        self._pairs: dict[tuple[str, str], str] = {}
        """The id behind each (server, tool) that artifacts and keys name."""
        self._frozen = False
        register_all(self, skills)

    def register(self, skill: Skill) -> Skill:
        """Adds the skill. The same one may come twice; another one under the same version may not.

        One with isolation="process" must be at the top level of a module other than the script that runs.
        """
        if not isinstance(skill, Skill):
            raise SkillDeclarationError(f"{_what(skill)} is no skill; a skill is a function under @skill(…)")
        if self._frozen:
            raise SkillDeclarationError(f"{skill.metadata.reference}: skills cannot be added while a run uses them")
        if skill.metadata.isolation == "process":
            home_of(skill)
        versions = self._skills.get(skill.skill_id, {})
        known = loaded(versions.get(skill.version, skill))
        if known.digest != skill.digest:
            raise SkillDeclarationError(
                f"{skill.metadata.reference} is declared twice and differently: {_origin(known)}"
                f" ({known.digest[:12]}) and {_origin(skill)} ({skill.digest[:12]}); give one another version"
            )
        if _place(known) != _place(skill):  # they declare the same, and nobody knows which of them was meant
            raise SkillDeclarationError(
                f"{skill.metadata.reference} is declared twice: {_place(known)} and {_place(skill)}; "
                "give one another version"
            )
        self._add(skill.skill_id, skill.version, versions.get(skill.version, skill))
        return known

    def declare(self, skill_id: str, version: str, module: str) -> None:
        """A skill that is at the top level of a module under its own id, and imported when somebody asks for it."""
        self._add(skill_id, version, Declared(skill_id, module))

    def _add(self, skill_id: str, version: str, skill: Skill | Declared) -> None:
        pair = split_skill_id(skill_id)
        same = self._pairs.setdefault(pair, skill_id)
        if same != skill_id:
            raise SkillDeclarationError(
                f"{skill_id} and {same} are one tool in a journal, {pair[1]} of the server {pair[0]}; rename one"
            )
        versions = {known: its for known, its in self._skills.get(skill_id, {}).items() if known != version}
        versions[version] = skill
        self._skills[skill_id] = {known: versions[known] for known in sorted(versions, key=precedence)}

    def resolve(self, skill_id: str, version: str) -> Skill:
        """Exactly this version, or `SkillNotFound` that says which versions there are."""
        found = self._skills.get(skill_id, {}).get(version)
        if found is None:
            raise SkillNotFound(self._absent(skill_id, version))
        return found if isinstance(found, Skill) else found.load()

    def highest(self, skill_id: str) -> Skill:
        """The highest registered version; a release beats its own pre-releases, a build those that came before it."""
        versions = self._skills.get(skill_id)
        if not versions:
            raise SkillNotFound(self._absent(skill_id, None))
        return loaded(next(reversed(versions.values())))

    def versions(self, skill_id: str) -> list[str]:
        """Registered versions in ascending order; empty when nobody knows the id."""
        return list(self._skills.get(skill_id, ()))

    def ids(self) -> list[str]:
        """Of every skill, in order."""
        return sorted(self._skills)

    def added(self) -> list[str]:
        """Ids of the skills that are not built in, in order; a built-in one is not imported to know that."""
        highest = {skill_id: next(reversed(versions.values())) for skill_id, versions in self._skills.items()}
        return sorted(name for name, skill in highest.items() if isinstance(skill, Skill) and skill.origin != BUILTINS)

    def all(self) -> list[Skill]:
        """Every skill, by id and then by version."""
        return [loaded(skill) for skill_id in sorted(self._skills) for skill in self._skills[skill_id].values()]

    def freeze(self) -> Registry:
        """A copy that nobody can add to: what a run resolves against, whatever is registered meanwhile."""
        return self.extended()

    def extended(self, skills: Iterable[Skill] = ()) -> Registry:
        """As `freeze`, with some skills more."""
        view = Registry()
        view._skills = {skill_id: dict(versions) for skill_id, versions in self._skills.items()}
        view._pairs = dict(self._pairs)
        register_all(view, skills)
        view._frozen = True
        return view

    @property
    def frozen(self) -> bool:
        return self._frozen

    def digests(self) -> dict[str, str]:
        """`id@version` → definition digest, as a plan's pins hold it."""
        return {skill.metadata.reference: skill.digest for skill in self.all()}

    def __contains__(self, reference: object) -> bool:
        """`"http_call@1.2.0" in registry`, or `"http_call" in registry` for any version."""
        if not isinstance(reference, str):
            return False
        skill_id, at, version = reference.partition("@")
        versions = self._skills.get(skill_id, {})
        return version in versions if at else bool(versions)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self.all())

    def __len__(self) -> int:
        return sum(len(versions) for versions in self._skills.values())

    def _absent(self, skill_id: str, version: str | None) -> str:
        versions = self.versions(skill_id)
        if versions:
            return f"no skill {skill_id}@{version}; registered versions of {skill_id}: {', '.join(versions)}"
        wanted = skill_id if version is None else f"{skill_id}@{version}"
        near = difflib.get_close_matches(skill_id, list(self._skills), n=1)
        advice = f"did you mean {near[0]}?" if near else "`reenact skills` lists them, --skills FILE adds yours"
        return f"no skill {wanted}; {advice}"


def register_all(registry: Registry, skills: Iterable[Skill]) -> None:
    """Registers each of them; SkillDeclarationError where they are not a list of skills."""
    if isinstance(skills, Skill | str) or not isinstance(skills, Iterable):
        raise SkillDeclarationError(f"skills are a list of skills, not {_what(skills)}: write skills=[…]")
    for skill in skills:
        registry.register(skill)


SkillsLike = Iterable[Skill] | Registry
"""Skills that are added to the built-in ones, or all that there are."""


def default_registry() -> Registry:
    """The built-in skills and those of installed packages (entry points of the group `reenact.skills`)."""
    from reenact.skills.load import load_entry_points

    registry = Registry()
    for reference, module in importlib.import_module(BUILTINS).MODULES.items():
        skill_id, version = reference.split("@")
        registry.declare(skill_id, version, module)
    load_entry_points(registry)
    return registry


def digests_of(registry: Registry, references: Iterable[str]) -> dict[str, str]:
    """As `Registry.digests`, of those references that are registered: the others need not be imported."""
    return {name: registry.resolve(*name.split("@", 1)).digest for name in references if name in registry}


def loaded(skill: Skill | Declared) -> Skill:
    return skill if isinstance(skill, Skill) else skill.load()


def _what(given: object) -> str:
    """What was given in the place of a skill, for a message."""
    if isinstance(given, str):
        return f"the text {given!r}"
    name = getattr(given, "__name__", None)
    return f"{type(given).__name__} {name}" if isinstance(name, str) else f"a value of type {type(given).__name__}"


def _place(skill: Skill) -> str:
    """`file:line` of the function: the same however often, under whatever name, and by whatever link it is imported."""
    code = getattr(inspect.unwrap(skill.function), "__code__", None)
    return "" if code is None else f"{os.path.realpath(code.co_filename)}:{code.co_firstlineno}"


def _origin(skill: Skill) -> str:
    return skill.origin or f"{skill.__module__}.{skill.__name__}"
