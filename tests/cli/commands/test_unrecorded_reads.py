"""`--unrecorded-reads`: steps that only read go on while the journal cannot be written."""

from __future__ import annotations

import pytest

from tests.cli.harness import Command

FILLING = '''
import resource

from reenact import skill


@skill("fill", version="1.0.0", tool_class="read")
def fill() -> str:
    """From now on no file may grow: to this process the disk is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    return "full"


@skill("free", version="1.0.0", tool_class="read")
def free(seen: str) -> str:
    """There is room again."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return seen
'''
STEPS = (
    {"step_id": "a", "skill_id": "fill"},
    {"step_id": "b", "skill_id": "free", "parameters": {"seen": "{{a}}"}},
    {"step_id": "c", "skill_id": "free", "parameters": {"seen": "{{b}}"}},
)


@pytest.fixture
def skills(reenact: Command) -> str:
    path = reenact.folder / "filling.py"
    path.write_text(FILLING, encoding="utf-8")
    return str(path)


def test_with_it_the_run_goes_on_says_so_and_is_recorded(reenact: Command, skills: str) -> None:
    ran = reenact("run", reenact.plan(*STEPS), "--skills", skills, "--unrecorded-reads")
    assert ran.code == 0, ran.err
    assert "b: goes on without a record: " in ran.err
    assert reenact("verify", "last").code == 0


def test_without_it_the_run_stops_at_once(reenact: Command, skills: str) -> None:
    ran = reenact("run", reenact.plan(*STEPS), "--skills", skills)
    assert ran.code == 3, ran.err
    assert ran.err.splitlines()[-1].startswith("error: ")
