"""What holds for the tests themselves: none of them may fail because the machine is busy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from hypothesis import HealthCheck, settings

TESTS = Path(__file__).resolve().parents[1]
PROFILE = TESTS / "conftest.py"


def given_deadlines(path: Path) -> Iterator[ast.keyword]:
    """`deadline=` wherever Hypothesis is told how to run something."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("settings", "register_profile"):
            yield from (keyword for keyword in node.keywords if keyword.arg == "deadline")


def test_only_the_profile_speaks_of_a_deadline() -> None:
    paths = [path for path in sorted(TESTS.rglob("*.py")) if path != PROFILE and "samples" not in path.parts]
    wrong = [f"{path.relative_to(TESTS)}:{keyword.value.lineno}" for path in paths for keyword in given_deadlines(path)]
    assert wrong == []
    assert [ast.unparse(keyword.value) for keyword in given_deadlines(PROFILE)] == ["None"]


def test_the_profile_holds_for_every_test() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
