"""Public names of a package that are loaded when they are first asked for: who needs one does not wait for all."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def loading(package: str, home: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package whose names stand in other modules: `home` is name → module."""

    def load(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home[name]), name)
        vars(sys.modules[package])[name] = value
        return value

    return load
