"""A file of skills is read and never run; a skill that changed is accepted by name."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.harness import Command, error_line

AGENT = """
from reenact import Runtime, skill

@skill("greet", version="1.0.0", tool_class="read")
def greet() -> str:
    return "hello"

runtime = Runtime(skills=[greet])
{guard}
{start}
"""
STARTS = [
    "with runtime.session() as session: session.call('greet')",
    "runtime.run({'plan_id': 'p', 'agent_id': 'a', 'steps': [{'step_id': 's', 'skill_id': 'greet'}]})",
    "import asyncio; asyncio.run(runtime.session().__aenter__())",
]


@pytest.mark.parametrize("start", STARTS)
def test_a_file_of_skills_that_starts_a_run_is_stopped_with_a_word_about_why(reenact: Command, start: str) -> None:
    agent = reenact.folder / "agent.py"
    agent.write_text(AGENT.format(guard="", start=start), encoding="utf-8")
    done = reenact("run", reenact.plan({"skill_id": "greet"}), "--skills", agent)
    assert done.code == 2
    line = error_line(done)
    assert line.startswith(f"{agent}:")
    assert 'if __name__ == "__main__":' in line
    assert reenact("ls", "--json").json == []


def test_what_stands_beneath_the_guard_is_left_alone(reenact: Command) -> None:
    agent = reenact.folder / "agent.py"
    agent.write_text(AGENT.format(guard='if __name__ == "__main__":', start=f"    {STARTS[0]}"), encoding="utf-8")
    assert reenact("run", reenact.plan({"skill_id": "greet"}), "--skills", agent).code == 0


PAY = '''
from reenact import skill

@skill("pay", version="1.0.0", tool_class="write", honours_key=True, timeout_ms={timeout})
def pay() -> str:
    """{words}"""
    return "paid"
'''


def killed(reenact: Command, skills: Path) -> None:
    skills.write_text(PAY.format(timeout=1000, words="Pays."), encoding="utf-8")
    done = reenact("run", reenact.plan({"skill_id": "pay"}), "--skills", skills, REENACT_CRASH_AT="after_dispatch:1")
    assert done.code == -signal.SIGKILL


def test_a_docstring_that_changed_does_not_hold_a_run(reenact: Command) -> None:
    skills = reenact.folder / "skills.py"
    killed(reenact, skills)
    skills.write_text(PAY.format(timeout=1000, words="Pays at once."), encoding="utf-8")
    assert reenact("resume", "last", "--skills", skills).code == 0


def test_a_changed_skill_is_accepted_by_name_and_shown(reenact: Command) -> None:
    skills = reenact.folder / "skills.py"
    killed(reenact, skills)
    skills.write_text(PAY.format(timeout=2000, words="Pays."), encoding="utf-8")
    held = reenact("resume", "last", "--skills", skills)
    assert held.code == 4
    assert "--accept-changed pay" in held.out + held.err
    done = reenact("resume", "last", "--skills", skills, "--accept-changed", "other", "--accept-changed", "pay")
    assert done.code == 0, done.err
    assert reenact("verify", "last").code == 0
    [event] = reenact("show", "last", "--json").json["events"]
    assert (event["type"], event["skill"], bool(event["who"])) == ("accept_changed", "pay@1.0.0", True)
