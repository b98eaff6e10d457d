"""Where a skill is declared, so that another process can import it again."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

import msgspec

from reenact.errors import SkillDeclarationError
from reenact.skills.skill import Skill

_IMPORTING: ContextVar[bool] = ContextVar("reenact_importing", default=False)


@contextmanager
def importing() -> Iterator[None]:
    """While a module is imported for the skills that it declares."""
    token = _IMPORTING.set(True)
    try:
        yield
    finally:
        _IMPORTING.reset(token)


def refuse_while_importing() -> None:
    """A file that is read for its skills must not begin to work: every command that names it would do that again."""
    if _IMPORTING.get():
        raise SkillDeclarationError(
            "this starts a run while the file is imported for its skills, so nothing was run; put it beneath "
            '`if __name__ == "__main__":`'
        )


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """A module, by its name and by its file: one that was loaded from a file has a name that nobody can import."""

    module: str
    file: str | None
    reference: str
    digest: str


def skills_in(module: ModuleType) -> list[Skill]:
    """Skills at the top level, in the order of the file, each once, however many names it has."""
    found: list[Skill] = []
    for value in vars(module).values():
        items = value if isinstance(value, list | tuple) else [value]
        found += [item for item in items if isinstance(item, Skill) and not any(item is known for known in found)]
    return found


def home_of(skill: Skill) -> Home:
    """`SkillDeclarationError` for a skill that only this process can have."""
    where = f'skill {skill.metadata.reference}: isolation="process"'
    if not hasattr(os, "fork") or getattr(sys, "frozen", False):
        raise SkillDeclarationError(f"{where} needs a Python that can start itself, on a system that can fork")
    module = sys.modules.get(skill.declared_in)
    if skill.declared_in == "__main__" or module is None:
        raise SkillDeclarationError(
            f"{where} loads the skill in another process, which does not run your script again: "
            "put it into a module of its own and import it from there"
        )
    if not any(known is skill for known in skills_in(module)):
        raise SkillDeclarationError(
            f"{where} finds the skill by its module: declare it at the top level of {skill.declared_in}, "
            "not within a function"
        )
    return Home(
        module=skill.declared_in,
        file=getattr(module, "__file__", None),
        reference=skill.metadata.reference,
        digest=skill.digest,
    )


def find_at(home: Home) -> Skill:
    """The skill, with its module imported where that was not done yet."""
    for skill in skills_in(import_home(home)):
        if skill.metadata.reference == home.reference and skill.digest == home.digest:
            return skill
    raise SkillDeclarationError(
        f"skill {home.reference} is declared otherwise when {home.module} is imported again: its declaration must not "
        "depend on what the process did before"
    )


def import_home(home: Home) -> ModuleType:
    try:
        with importing():
            return importlib.import_module(home.module)
    except ModuleNotFoundError as error:
        if home.file is None or error.name is None or not (home.module + ".").startswith(error.name + "."):
            raise
    spec = importlib.util.spec_from_file_location(home.module, home.file)
    assert spec is not None, "it was loaded from there once"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[home.module] = module
    with importing():
        spec.loader.exec_module(module)
    return module
