"""Approve, deny, resolve, cancel: through the real command line, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.harness import Command
from tests.engines.places import store_at

SKILLS = """
import pathlib, time
from reenact import SkillContext, skill

@skill("mailer", version="1.0.0", tool_class="write", in_doubt="hold")
def mailer(to: str) -> str:
    log = pathlib.Path(__file__).with_name("sent")
    log.write_text((log.read_text() if log.exists() else "") + to + "\\n")
    return "sent"

@skill("asks_back", version="1.0.0", tool_class="write", in_doubt="reconcile",
       reconcile=lambda ctx, to: {"done": pathlib.Path(__file__).with_name("sent").exists(), "output": "found"})
def asks_back(to: str) -> str:
    pathlib.Path(__file__).with_name("sent").write_text(to)
    return "sent"

@skill("slow", version="1.0.0", tool_class="read")
def slow(n: int) -> int:
    pathlib.Path(__file__).with_name(f"slow-{n}").write_text("")
    time.sleep(0.3)
    return n
"""


class Shell:
    """The command line on one store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "skills.py").write_text(SKILLS)
        self.base = ["--store", store_at(folder / "store.db")]

    def command(self, *words: str, skills: bool = False) -> list[str]:
        extra = ["--skills", str(self.folder / "skills.py")] if skills else []
        return [sys.executable, "-m", "reenact", *words, *self.base, *extra]

    def run(self, *words: str, skills: bool = False, crash_at: str | None = None) -> subprocess.CompletedProcess[str]:
        more = {"REENACT_CRASH_AT": crash_at} if crash_at else {}
        words = tuple(self.command(*words, skills=skills)[3:])
        done = Command(self.folder)(*words, **more)
        return subprocess.CompletedProcess(words, done.code, done.out, done.err)

    def plan(self, skill: str, *, steps: int = 1, **context: object) -> str:
        path = self.folder / f"{skill}.json"
        parameters = (lambda n: {"n": n}) if skill == "slow" else (lambda n: {"to": f"t{n}"})
        rows = [{"step_id": f"s{n}", "skill_id": skill, "parameters": parameters(n)} for n in range(steps)]
        path.write_text(json.dumps({"plan_id": "p", "agent_id": "a", "steps": rows, "context": context}))
        return str(path)

    @property
    def sent(self) -> str:
        log = self.folder / "sent"
        return log.read_text() if log.exists() else ""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_write_waits_for_a_person_and_goes_on_once_approved(shell: Shell) -> None:
    waiting = shell.run("run", shell.plan("mailer", supervisor="ask"), skills=True)
    assert waiting.returncode == 4
    rows = json.loads(shell.run("ls", "--waiting", "--json").stdout)
    assert [row["status"] for row in rows] == ["waiting"]
    again = shell.run("recover", skills=True)
    assert again.returncode == 4
    assert shell.sent == ""
    assert shell.run("approve", "last").returncode == 2, "a reason is needed"
    assert shell.run("approve", "last", "--reason", "seen", "--who", "kim").returncode == 0
    done = shell.run("resume", "last", skills=True)
    assert done.returncode == 0, done.stderr
    assert shell.sent == "t0\n"
    assert shell.run("verify", "last").returncode == 0


def test_a_denied_write_is_a_refusal_with_a_code(shell: Shell) -> None:
    shell.run("run", shell.plan("mailer", supervisor="ask"), skills=True)
    assert shell.run("deny", "last", "s0", "--reason", "no").returncode == 0
    ended = shell.run("resume", "last", "--json", skills=True)
    assert ended.returncode == 1
    assert "ERR_POLICY_VIOLATION" in ended.stdout
    assert shell.sent == ""


@pytest.mark.parametrize(
    ("word", "returncode", "sent"),
    [("--succeeded", 0, "t0\n"), ("--failed", 1, "t0\n"), ("--redispatch", 0, "t0\nt0\n")],
)
def test_a_call_in_doubt_is_held_until_a_person_resolves_it(
    shell: Shell, word: str, returncode: int, sent: str
) -> None:
    shell.run("run", shell.plan("mailer"), skills=True, crash_at="after_dispatch")
    held = shell.run("recover", skills=True)
    assert held.returncode == 4
    assert "resolve" in held.stdout + held.stderr
    assert shell.run("resolve", "last", "s0", word, "--reason", "looked").returncode == 0
    ended = shell.run("resume", "last", skills=True)
    assert ended.returncode == returncode
    assert shell.sent == sent
    assert shell.run("verify", "last").returncode == 0


def test_a_read_back_hook_is_asked_before_anything_is_sent_again(shell: Shell) -> None:
    shell.run("run", shell.plan("asks_back"), skills=True, crash_at="after_dispatch")
    assert shell.run("recover", skills=True).returncode == 0
    shown = json.loads(shell.run("show", "last", "--json", "--values").stdout)
    assert "found" in json.dumps(shown)
    assert shell.run("verify", "last").returncode == 0


def test_a_run_in_progress_stops_before_its_next_call_when_cancelled(shell: Shell) -> None:
    with subprocess.Popen(shell.command("run", shell.plan("slow", steps=200), skills=True)) as running:
        deadline = time.monotonic() + 60
        while not (shell.folder / "slow-0").exists():
            assert time.monotonic() < deadline
        assert shell.run("cancel", "last", "--reason", "enough").returncode == 0
        assert running.wait(timeout=60) == 1
    rows = json.loads(shell.run("ls", "--json").stdout)
    assert rows[0]["status"] == "cancelled"
    assert shell.run("verify", "last").returncode == 0


def test_a_run_that_nobody_works_on_is_cancelled_and_sealed(shell: Shell) -> None:
    shell.run("run", shell.plan("mailer", supervisor="ask"), skills=True)
    assert shell.run("cancel", "last", "--reason", "enough").returncode == 0
    assert shell.run("resume", "last", skills=True).returncode == 1
    assert shell.run("verify", "last").returncode == 0
    assert shell.run("cancel", "last", "--reason", "again").returncode == 2


def test_the_doctor_says_what_to_do(shell: Shell) -> None:
    nothing = shell.run("doctor")
    assert nothing.returncode == 0
    assert "reenact run" in nothing.stdout
    shell.run("run", shell.plan("mailer"), skills=True, crash_at="after_dispatch")
    sick = shell.run("doctor")
    assert sick.returncode == 4
    assert "reenact recover" in sick.stdout
    for extra in ("store.db-wal", "store.db-shm"):
        (shell.folder / extra).unlink(missing_ok=True)
    (shell.folder / "store.db").write_bytes(b"this is not a database, whatever its name says" * 200)
    assert shell.run("doctor").returncode == 3
