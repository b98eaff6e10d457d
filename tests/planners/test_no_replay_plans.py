"""A replay never asks a planner: nothing that runs or replays even knows one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest


@pytest.mark.parametrize("part", ["runtime", "replay", "journal", "store", "verify"])
def test_no_part_that_runs_or_replays_imports_a_planner(root: Path, part: str) -> None:
    for path in sorted((root / "src" / "reenact" / part).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith("reenact.planners") for name in names), path
