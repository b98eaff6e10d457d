"""A command on a fresh store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import SKILLS, Command


@pytest.fixture
def reenact(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """A store with one completed run of two steps; for tests that only read."""
    command = Command(tmp_path_factory.mktemp("recorded"))
    plan = command.plan({"skill_id": "flaky"}, {"skill_id": "steady", "parameters": {"text": "a private word"}})
    done = command("run", plan, "--skills", SKILLS)
    assert done.code == 0, done.err
    return command
