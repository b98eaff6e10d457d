"""Finding skills: in a file, in a module, in installed packages."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from reenact.errors import ReenactError, SkillDeclarationError
from reenact.skills.home import importing, skills_in
from reenact.skills.registry import Registry
from reenact.skills.skill import Skill
from reenact.values.digest import sha256_hex

ENTRY_POINT_GROUP = "reenact.skills"


def load_skills(spec: str, registry: Registry) -> list[Skill]:
    """Registers every skill at the top level of a file (`my_skills.py`) or a module (`package.module`).

    Whatever goes wrong in that code is one `SkillDeclarationError` with file and line.
    """
    path = _as_path(spec)
    module = _import_file(path) if path is not None else _import_module(spec)
    found = skills_in(module)
    if not found:
        raise SkillDeclarationError(f"{spec} declares no skill; put @skill(…) on a function at its top level")
    return [_register(skill, str(path) if path else spec, registry) for skill in found]


def load_entry_points(registry: Registry) -> list[Skill]:
    """Registers what installed packages offer: an entry point names a skill, or a module or list of them."""
    loaded: list[Skill] = []
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda item: (item.name, item.value)):
        loaded += [_register(skill, point.value, registry) for skill in _from_entry_point(point)]
    return loaded


def _register(skill: Skill, origin: str, registry: Registry) -> Skill:
    if skill.origin is None:
        skill.origin = origin
    return registry.register(skill)


def _as_path(spec: str) -> Path | None:
    separators = [separator for separator in (os.sep, os.altsep) if separator]
    if spec.endswith(".py") or any(separator in spec for separator in separators):
        return Path(spec).resolve()
    return None


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise SkillDeclarationError(f"{path}: no such file of skills")
    # The name carries the path: two files called skills.py are two modules.
    name = f"reenact_skills_{sha256_hex(str(path).encode())[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SkillDeclarationError(f"{path}: this is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Appended, so that a file beside the skills can be imported but never hides an installed package.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    sys.modules[name] = module
    try:
        with importing():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a user's file raises becomes one line
        del sys.modules[name]
        raise _failed(error, str(path), path) from None
    return module


def _import_module(name: str) -> ModuleType:
    try:
        with importing():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise SkillDeclarationError(
                f"no module {name}; is it installed, or did you mean a file (ending in .py)?"
            ) from None
        raise _failed(error, name, None) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a user's module raises becomes one line
        raise _failed(error, name, None) from None


def _from_entry_point(point: EntryPoint) -> list[Skill]:
    try:
        target = point.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a broken package is named, not dumped
        raise _failed(error, f"entry point {point.name} = {point.value}", None) from None
    if isinstance(target, Skill):
        return [target]
    if isinstance(target, ModuleType):
        return skills_in(target)
    if isinstance(target, list | tuple) and all(isinstance(item, Skill) for item in target):
        return list(target)
    raise SkillDeclarationError(f"entry point {point.name} = {point.value} names no skill, module or list of skills")


def _failed(error: BaseException, what: str, path: Path | None) -> SkillDeclarationError:
    place = _place(error, path) or what
    reason = " ".join(str(error).split()) or "no reason given"
    if isinstance(error, SyntaxError):
        reason = error.msg
    kind = "" if isinstance(error, ReenactError) else f"{type(error).__name__}: "
    return SkillDeclarationError(f"{place}: {kind}{reason}")


def _place(error: BaseException, path: Path | None) -> str | None:
    """`file:line` of the user's own code that is nearest to the error."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if path is not None and frame.filename == str(path)]
    outside = [frame for frame in frames if "importlib" not in frame.filename and not frame.filename.startswith("<")]
    chosen = own or [
        frame for frame in outside if frame.filename != __file__ and "/reenact/skills/" not in frame.filename
    ]
    return f"{chosen[-1].filename}:{chosen[-1].lineno}" if chosen else None
