"""A question asked in one process, answered from the command line, carried out in another; nobody is asked it twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.places import store_at

AGENT = """
from reenact import Runtime, skill
from reenact.errors import WaitingForPerson

@skill("pay", version="1.0.0", tool_class="write", in_doubt="hold")
def pay(cents: int) -> int:
    print(f"paid {cents}", file=open("paid.txt", "a"))
    return cents

def careful(proposal):
    print(f"{proposal.step_id} {proposal.parameters['cents']}", file=open("asked.txt", "a"))
    return "ask" if proposal.parameters["cents"] > 5 else True

if __name__ == "__main__":
    runtime = Runtime("sqlite:///agents.db", skills=[pay], supervisor=careful)
    try:
        with runtime.session(id="order-42") as session:
            print([session.call("pay", {"cents": cents}).output for cents in (5, 6, 7)])
    except WaitingForPerson as waits:
        print(f"waits for {waits.step_id}")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT.replace("sqlite:///agents.db", store_of(tmp_path)))
    return tmp_path


def store_of(folder: Path) -> str:
    return store_at(f"sqlite:///{folder / 'agents.db'}")


def start(folder: Path) -> str:
    done = subprocess.run([sys.executable, "agent.py"], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def say(folder: Path, word: str) -> None:
    command = [sys.executable, "-m", "reenact", word, "order-42", "--reason", "seen", "--store", store_of(folder)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def lines(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text().splitlines()


def test_what_a_person_says_from_the_command_line_is_carried_out_by_the_next_process(folder: Path) -> None:
    assert [start(folder), start(folder)] == ["waits for main:2"] * 2
    assert lines(folder, "asked.txt") == ["main:1 5", "main:2 6"], "the question stands, and is not put again"
    say(folder, "approve")
    assert [start(folder), start(folder)] == ["waits for main:3"] * 2
    assert lines(folder, "asked.txt")[2:] == ["main:2 6", "main:3 7"], "it may still refuse what a person approved"
    say(folder, "deny")
    assert [start(folder), start(folder)] == ["[5, 6, None]"] * 2
    assert len(lines(folder, "asked.txt")) == 4, "nobody is asked about what a person denied"
    assert lines(folder, "paid.txt") == ["paid 5", "paid 6"]
