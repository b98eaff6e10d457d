"""Choosing a planner by name: `static:FILE`, `rules:FILE`, `model:NAME`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reenact.errors import UsageError
from reenact.planners.planner import Planner


def planner_for(spec: str, **options: Any) -> Planner:
    """The planner that a text names. `options` are those of `ModelPlanner`; the others have none."""
    kind, colon, rest = spec.partition(":")
    if not colon or not rest:
        raise UsageError(f"planner {spec!r} is not static:FILE, rules:FILE or model:NAME")
    if kind == "static":
        from reenact.planners.static_file import StaticPlanner

        return StaticPlanner(Path(rest))
    if kind == "rules":
        from reenact.planners.rules import RulesPlanner

        return RulesPlanner(Path(rest))
    if kind == "model":
        from reenact.planners.model import ModelPlanner

        return ModelPlanner(rest, **options)
    raise UsageError(f"there is no planner {kind!r}; name static:FILE, rules:FILE or model:NAME")
