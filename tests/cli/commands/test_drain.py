"""SIGTERM: nothing new begins, calls in flight end, runs are given back between two steps."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.harness import Command

SLOW = str(Path(__file__).parent / "slow_skills.py")
STEPS = 8
ENDS = (0, -signal.SIGTERM)
"""The latter where the command has done all, and Python ends."""
KINDS = ("slow.thread", "slow.loop", "slow.process")


def a_plan(reenact: Command, *, seconds: float, steps: int = 4, kinds: tuple[str, ...] = KINDS) -> Path:
    return reenact.plan(
        *(
            {"skill_id": kinds[number % len(kinds)], "parameters": {"name": f"n{number}", "seconds": seconds}}
            for number in range(steps)
        )
    )


def ledger(reenact: Command) -> list[str]:
    path = reenact.folder / "ledger"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def until(reenact: Command, line: str, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 30
    while line not in ledger(reenact):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, f"{line} does not come"
        time.sleep(0.005)


def status(reenact: Command) -> tuple[str, bool]:
    (row,) = reenact("ls", "--json").json
    return row["status"], row["interrupted"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_in_flight_ends_and_the_run_is_given_back(reenact: Command, kind: str) -> None:
    process = reenact.start("run", a_plan(reenact, seconds=0.4, kinds=(kind,)), "--skills", SLOW)
    until(reenact, "began n1", process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "given back" in out
    assert ledger(reenact) == ["began n0", "did n0", "began n1", "did n1"]
    assert status(reenact) == ("running", True)
    began = time.monotonic()
    resumed = reenact("resume", "last", "--skills", SLOW)
    assert resumed.code == 0, resumed.out + resumed.err
    assert time.monotonic() - began < 8, "no lease is waited for"
    assert ledger(reenact)[4:] == ["began n2", "did n2", "began n3", "did n3"]
    assert reenact("verify", "last").code == 0


def test_resume_and_recover_drain_too(reenact: Command) -> None:
    process = reenact.start("run", a_plan(reenact, seconds=0.3, steps=6), "--skills", SLOW)
    until(reenact, "began n0", process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    for number, command in enumerate((("resume", "last"), ("recover",)), start=1):
        process = reenact.start(*command, "--skills", SLOW)
        until(reenact, f"began n{number}", process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert ledger(reenact)[-1] == f"did n{number}"
    assert reenact("resume", "last", "--skills", SLOW).code == 0
    assert ledger(reenact) == [f"{what} n{number}" for number in range(6) for what in ("began", "did")]


@pytest.mark.parametrize(
    "again",
    [("replay", "last", "--retry-failed"), ("fork", "last", "--at", "s1", "--live")],
    ids=lambda words: words[0],
)
def test_a_replay_and_a_fork_that_call_live_drain_too(reenact: Command, again: tuple[str, ...]) -> None:
    """Of a run that failed for want of a file; then it is there."""
    first = {"step_id": "s0", "skill_id": "slow.thread", "parameters": {"name": "n0", "seconds": 0}}
    rest = [
        {"step_id": f"s{number}", "skill_id": "slow.thread", "parameters": {"name": f"n{number}", "seconds": 0.4}}
        for number in range(1, 4)
    ]
    (reenact.folder / "out of order").touch()
    assert reenact("run", reenact.plan(first, *rest), "--skills", SLOW).code == 1
    (reenact.folder / "out of order").unlink()
    done = len(ledger(reenact))
    process = reenact.start(*again, "--skills", SLOW)
    until(reenact, "began n1", process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, out + err
    assert "drains" in out
    assert ledger(reenact)[done:] == ["began n1", "did n1"]
    resumed = reenact("resume", "last", "--skills", SLOW)
    assert resumed.code == 0, resumed.out + resumed.err
    assert ledger(reenact)[done + 2 :] == [f"{what} n{number}" for number in (2, 3) for what in ("began", "did")]


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_end_in_time_is_treated_as_after_a_crash(reenact: Command, kind: str) -> None:
    process = reenact.start("run", a_plan(reenact, seconds=60, kinds=(kind,)), "--skills", SLOW, "--grace", "0.3")
    until(reenact, "began n0", process)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 4, err
    assert "had not ended when the grace was over" in out
    assert 0.3 <= time.monotonic() - began < 5
    assert ledger(reenact) == ["began n0"]
    resumed = reenact("resume", "last", "--skills", SLOW)
    assert resumed.code == 4
    assert "in doubt" in resumed.out
    assert ledger(reenact) == ["began n0"], "a skill that is held is not sent again"


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(reenact: Command, second: signal.Signals) -> None:
    process = reenact.start("run", a_plan(reenact, seconds=60, kinds=("slow.thread",)), "--skills", SLOW)
    until(reenact, "began n0", process)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(second)
    process.communicate(timeout=5)
    assert process.returncode == -second
    assert status(reenact) == ("running", True)


def test_at_random_instants_nothing_is_done_twice_and_nothing_is_in_doubt(
    reenact: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    draw, starts = random.Random(20261116), 0
    command: tuple[str | Path, ...] = ("run", a_plan(reenact, seconds=0.05, steps=STEPS))
    while starts == 0 or status(reenact)[0] != "completed":
        starts += 1
        assert starts < 40
        process = reenact.start(*command, "--skills", SLOW)
        assert process.stderr is not None
        process.stderr.readline()  # it has begun
        time.sleep(draw.uniform(0, 0.6))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert process.returncode in ENDS, out + err
        command = ("resume", "last")
    assert ledger(reenact) == [f"{what} n{number}" for number in range(STEPS) for what in ("began", "did")]
    assert reenact("verify", "last").code == 0
    with capsys.disabled():
        print(f"\n{STEPS} steps in {starts} starts, each of them drained; one effect each")


def test_without_a_run_there_is_nothing_to_give_back(reenact: Command) -> None:
    """SIGTERM while the skills are still imported."""
    skills = reenact.folder / "slow_to_import.py"
    skills.write_text("import pathlib, time\npathlib.Path('ledger').write_text('began\\n')\ntime.sleep(30)\n")
    process = reenact.start("run", a_plan(reenact, seconds=0), "--skills", str(skills))
    until(reenact, "began", process)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == -signal.SIGTERM
    assert not reenact.store.exists()
