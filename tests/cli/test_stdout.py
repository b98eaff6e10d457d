"""Stdout is the command's own: what the code of skills prints goes to stderr, however it prints."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.harness import Command

CHATTY = '''
import os
import subprocess
import sys

from reenact import SkillContext, skill

print("at import")
os.write(1, b"at import, past Python\\n")


@skill("chatty", version="1.0.0", tool_class="read", idempotent=True)
def chatty(ctx: SkillContext) -> str:
    """Says what it does."""
    print("in a thread")
    os.write(1, b"in a thread, past Python\\n")
    subprocess.run([sys.executable, "-c", "print('in a child')"], check=True)
    return "done"


@skill("chatty-async", version="1.0.0", tool_class="read", idempotent=True)
async def chatty_async(ctx: SkillContext) -> str:
    """Says what it does."""
    print("in the loop")
    return "done"


@skill("chatty-process", version="1.0.0", tool_class="read", idempotent=True, isolation="process")
def chatty_process(ctx: SkillContext) -> str:
    """Says what it does."""
    print("in a process", flush=True)
    return "done"
'''
SAID = ["at import", "at import, past Python", "in a thread", "in a thread, past Python", "in a child", "in the loop"]


@pytest.fixture
def chatty(reenact: Command) -> Path:
    path = reenact.folder / "chatty.py"
    path.write_text(CHATTY, encoding="utf-8")
    return path


def test_json_is_all_that_stands_on_stdout_whatever_skills_print(reenact: Command, chatty: Path) -> None:
    plan = reenact.plan({"skill_id": "chatty"}, {"skill_id": "chatty-async"}, {"skill_id": "chatty-process"})
    ran = reenact("run", plan, "--skills", chatty, "--json")
    assert ran.json["status"] == "completed"
    assert set(SAID) <= set(ran.err.splitlines())
    assert "in a process" in ran.err
    for command in (["replay", "last", "--mode", "full_replay"], ["pin", plan], ["simulate", plan], ["skills"]):
        done = reenact(*command, "--skills", chatty, "--json")
        assert isinstance(done.json, dict | list), command
        assert "at import" in done.err, command


def test_without_json_the_result_stands_alone_on_stdout_too(reenact: Command, chatty: Path) -> None:
    done = reenact("run", reenact.plan({"skill_id": "chatty"}), "--skills", chatty)
    assert [line.split()[0] for line in done.out.splitlines()] == ["s0", "run"]
    assert "in a thread" in done.err


def test_a_process_without_stderr_runs_all_the_same(reenact: Command, chatty: Path) -> None:
    plan = reenact.plan({"skill_id": "chatty"})
    argv = reenact.argv("run", plan, "--skills", chatty, "--json")
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *argv],
        cwd=reenact.folder, env=reenact.env(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert '"status": "completed"' in done.stdout
