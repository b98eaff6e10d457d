"""Optional packages, imported only by the skill that needs them."""

from __future__ import annotations

import importlib
from types import ModuleType

from reenact.errors import SkillError


def require(module: str, *, extra: str, skill: str) -> ModuleType:
    """The module, or an error that names the extra which brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise SkillError.of(
            "ERR_SKILL_DISABLED",
            f"{skill} needs {module}; install it with: pip install 'reenact[{extra}]'",
            extra=extra,
        ) from None
