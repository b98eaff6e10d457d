"""A session's id stands for its run in every command; approvals and doubts go from process to process."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.harness import Command, environment

PROGRAM = """
import sys
from pathlib import Path
from reenact import Runtime, skill

LEDGER = Path(__file__).with_name("ledger.txt")

@skill("pay", version="1.0.0", tool_class="write", idempotent=False)
def pay(amount: int) -> int:
    with LEDGER.open("a") as file:
        file.write(f"{amount}\\n")
    return amount

@skill("look", version="1.0.0", tool_class="read", idempotent=False)
def look() -> str:
    return "seen"

def supervisor(proposal):
    return "ask" if proposal.skill_id == "pay" and "ask" in sys.argv else True

if __name__ == "__main__":
    runtime = Runtime(sys.argv[1], skills=[pay, look], supervisor=supervisor)
    with runtime.session(id="order 42/ä", agent_id="anna") as session:
        session.call("look")
        print(session.call("pay", {"amount": 7}).output)
        if "wait" in sys.argv:
            print("inside", flush=True)
            sys.stdin.read()
"""
NAME = "order 42/ä"
COMMANDS = (
    ["show", NAME],
    ["verify", NAME],
    ["export", NAME, "--to", "bundle"],
    ["replay", NAME],
    ["resume", NAME],
    ["play", NAME],
    ["fork", NAME, "--at", "main:2"],
    ["diff", NAME, NAME],
    ["shadow", NAME, "--set", "context.budget_cents=9"],
    ["log", "prove", NAME],
)
OF_OPEN_RUNS = (
    ["approve", NAME, "main:2", "--reason", "x"],
    ["deny", NAME, "main:2", "--reason", "x"],
    ["resolve", NAME, "main:2", "--failed", "--reason", "x"],
    ["cancel", NAME, "--reason", "x"],
)


@pytest.fixture
def program(reenact: Command) -> Path:
    path = reenact.folder / "agent.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def start(reenact: Command, program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(program), str(reenact.store), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)


def test_an_approval_asked_in_one_process_given_by_command_carried_out_in_another(
    reenact: Command, program: Path
) -> None:
    for _ in range(2):
        asked = start(reenact, program, "ask")
        assert "WaitingForPerson" in asked.stderr
        assert not (reenact.folder / "ledger.txt").exists()
    waiting = reenact("ls", "--waiting", "--json").json
    assert [(row["session"], row["status"]) for row in waiting] == [(NAME, "waiting")]
    assert reenact("approve", NAME, "main:2", "--reason", "fine").code == 0
    for _ in range(3):
        assert start(reenact, program, "ask").stdout == "7\n"
    assert (reenact.folder / "ledger.txt").read_text() == "7\n"
    assert reenact("verify", NAME).code == 0
    assert reenact("replay", NAME, "--skills", str(program)).code == 0


def test_every_command_takes_the_id_for_the_run(reenact: Command, program: Path) -> None:
    assert start(reenact, program).stdout == "7\n"
    listed = reenact("ls")
    assert f"session {NAME} of anna" in listed.out
    for command in COMMANDS:
        done = reenact(*command)
        assert done.code == 0, (command, done.err)
    for command in OF_OPEN_RUNS:
        done = reenact(*command)
        assert done.code == 2, command
        assert "has ended (completed)" in done.err, (command, done.err)
    assert NAME in reenact("show", NAME).out
    run_id = reenact("show", NAME, "--json").json["run_id"]
    assert reenact("show", run_id, "--json").json["session"] == NAME
    assert reenact("erase", NAME, "--reason", "asked to", "--yes").code == 0
    missing = reenact("show", "order 43")
    assert missing.code == 2
    assert "no run 'order 43'" in missing.err


def test_an_id_that_two_agents_have_names_their_runs(reenact: Command, program: Path) -> None:
    assert start(reenact, program).returncode == 0
    program.write_text(PROGRAM.replace('agent_id="anna"', 'agent_id="ben"'), encoding="utf-8")
    assert start(reenact, program).returncode == 0
    runs = [row["run_id"] for row in reenact("ls", "--json").json]
    for command in ("show", "verify"):
        unclear = reenact(command, NAME)
        assert unclear.code == 2
        assert all(run_id in unclear.err for run_id in runs), unclear.err


def test_two_processes_with_one_id_one_works(reenact: Command, program: Path) -> None:
    command = [sys.executable, str(program), str(reenact.store), "wait"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as first:
        assert first.stdout is not None
        assert first.stdin is not None
        while "inside" not in (line := first.stdout.readline()):
            assert line, "it ended"
        second = start(reenact, program)
        assert "LockAcquireFailed" in second.stderr
        first.stdin.close()
        assert first.wait() == 0
    time.sleep(0)
    assert start(reenact, program).stdout == "7\n"
    assert (reenact.folder / "ledger.txt").read_text() == "7\n"
