"""A reader that leaves is no failure, and no reason for noise."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.harness import Command


def unread(reenact: Command, *arguments: str | Path, stderr_too: bool = False) -> tuple[int, str]:
    """(exit code, stderr) of a command whose output nobody reads any more."""
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = subprocess.run(
            reenact.argv(*arguments),
            cwd=reenact.folder,
            env=reenact.env(PYTHONUNBUFFERED=""),
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs if stderr_too else subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(theirs)
    return done.returncode, done.stderr or ""


@pytest.mark.parametrize(
    "command", [["ls"], ["show", "last", "--json"], ["verify", "last"], ["doctor"], ["--help"], ["--version"]]
)
def test_a_command_whose_reader_left_is_quiet_and_says_so_by_its_exit_code(
    recorded: Command, command: list[str]
) -> None:
    assert unread(recorded, *command) == (141, "")


def test_a_mistake_that_nobody_reads_of_is_quiet_too(recorded: Command) -> None:
    assert unread(recorded, "show", "nothing-like-it", stderr_too=True) == (141, "")


def test_what_a_skill_printed_is_not_reported_as_lost(reenact: Command) -> None:
    skills = reenact.folder / "printing.py"
    skills.write_text(
        "from reenact import skill\n\n"
        '@skill("say", version="1.0.0", tool_class="read")\n'
        "def say() -> None:\n"
        '    """Says something."""\n'
        '    print("something")\n'
    )
    plan = reenact.plan({"skill_id": "say"})
    code, err = unread(reenact, "run", plan, "--skills", skills)
    assert code == 141
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    assert reenact("ls", "--json").json[0]["status"] == "completed"


def test_a_whole_output_into_a_pipe_keeps_its_exit_code(recorded: Command) -> None:
    process = recorded.start("ls")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "completed" in out
