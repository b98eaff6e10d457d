"""Whatever the streams of the process are, and whatever they can say, the work is done and its exit code tells."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.harness import SKILLS, Command, environment, error_line


def with_closed(reenact: Command, streams: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command started as `reenact … >&-`."""
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" "$@" {streams}', *reenact.argv(*arguments)],
        cwd=reenact.folder,
        env=reenact.env(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_without_some_stream_does_its_work(reenact: Command, streams: str) -> None:
    plan = reenact.plan({"skill_id": "flaky"})
    done = with_closed(reenact, streams, "run", plan, "--skills", SKILLS)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    for command in (["verify", "last"], ["show", "last", "--json"], ["ls"]):
        assert with_closed(reenact, streams, *command).returncode == 0, command
    assert with_closed(reenact, streams, "verify", "nothing").returncode == 2
    assert reenact("verify", "last").code == 0


@pytest.fixture
def named(reenact: Command) -> Command:
    """A store whose only run has a name that few encodings can say."""
    plan = reenact.plan({"skill_id": "steady", "parameters": {"text": "Übermut 🎉"}})
    plan.write_text(plan.read_text().replace("a-plan", "план 🎉"), encoding="utf-8")
    done = reenact("run", plan, "--skills", SKILLS)
    assert done.code == 0, done.err
    return reenact


def in_encoding(reenact: Command, encoding: str, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        reenact.argv(*arguments),
        cwd=reenact.folder,
        env=reenact.env(PYTHONIOENCODING=encoding),
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", [["ls"], ["show", "last", "--values"]])
def test_what_an_encoding_cannot_say_is_spelled_out(named: Command, command: list[str]) -> None:
    done = in_encoding(named, "latin-1", *command)
    assert done.returncode == 0, done.stderr
    assert b"\\U0001f389" in done.stdout


def test_json_is_utf_8_in_every_encoding(named: Command) -> None:
    done = in_encoding(named, "latin-1", "ls", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode("utf-8"))[0]["plan_id"] == "план 🎉"
    pinned = in_encoding(named, "latin-1", "pin", "plan.json", "--skills", SKILLS)
    assert pinned.returncode == 0, pinned.stderr
    assert json.loads(pinned.stdout.decode("utf-8"))["plan_id"] == "план 🎉"


def test_a_user_without_a_home_directory_is_told_to_name_a_store(reenact: Command) -> None:
    nobody = (
        "import pwd, sys\n"
        "def unknown(*_): raise KeyError\n"
        "pwd.getpwuid = unknown\n"
        "from reenact.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    env = {name: value for name, value in environment().items() if name not in ("HOME", "XDG_DATA_HOME")}
    argv = [*reenact.argv()[:1], "-c", nobody, "ls"]
    done = subprocess.run(argv, env=env, cwd=reenact.folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: you have no home directory; name a store with --store or REENACT_STORE [USAGE]\n"


def test_a_relative_data_directory_is_ignored(reenact: Command, tmp_path: Path) -> None:
    done = reenact("ls", REENACT_STORE="", XDG_DATA_HOME="relative", HOME=str(tmp_path / "home"))
    assert done.code == 0
    assert str(tmp_path / "home" / ".local" / "share" / "reenact" / "reenact.db") in done.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["export", "last"], "Missing option '--to'"),
        (["run"], "Missing argument 'PLAN'"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["ls", "--limit", "0"], "'--limit'"),
        (["ls", "--limit", "99999999999999999999"], "'--limit'"),
        (["ls", "one too many"], "one too many"),
        (["--frobnicate"], "--frobnicate"),
    ],
)
def test_a_mistake_in_the_command_itself_is_one_line_too(reenact: Command, arguments: list[str], told: str) -> None:
    done = reenact(*arguments)
    assert (done.code, done.out) == (2, "")
    line = error_line(done)
    assert told in line
    assert "--help`" in line


def test_without_a_command_the_help_is_shown(reenact: Command) -> None:
    done = reenact()
    assert done.code == 2
    assert "Commands:" in done.out + done.err


def test_an_interrupt_while_skills_are_loaded_is_told(reenact: Command) -> None:
    skills = reenact.folder / "interrupting.py"
    skills.write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    done = reenact("run", reenact.plan({"skill_id": "steady"}), "--skills", skills)
    assert (done.code, done.err) == (130, "interrupted\n")
    assert not reenact.store.exists()
