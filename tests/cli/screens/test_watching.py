"""`show --watch`: what another process does, while it does it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.cli.harness import SKILLS, Command


def waiting_run(reenact: Command, gate: Path) -> tuple[subprocess.Popen[str], str]:
    """A run in another process: its first step is done, its second waits for a file."""
    plan = reenact.plan(
        {"skill_id": "flaky"}, {"skill_id": "waits", "parameters": {"file": str(gate)}}, {"skill_id": "steady"}
    )
    process = reenact.start("run", plan, "--skills", SKILLS)
    assert process.stderr is not None
    run_id = process.stderr.readline().split()[1]
    while process.stderr.readline() != "s0: OK\n":
        pass
    return process, run_id


def test_a_run_of_another_process_is_told_as_it_goes_until_it_ends(reenact: Command, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    runner, run_id = waiting_run(reenact, gate)
    watcher = reenact.start("show", run_id[:20], "--watch")
    assert watcher.stdout is not None
    early = [watcher.stdout.readline()]
    while "s1  waits@1.0.0" not in early[-1]:
        early.append(watcher.stdout.readline())
    assert not gate.exists()  # all of this was told before the second step could end
    told = "".join(early)
    assert run_id in told
    assert "attempt 1  ERR_TIMEOUT" in told
    assert "s0  flaky@1.0.0  COMPLETED  OK" in told
    gate.touch()
    late, err = watcher.communicate(timeout=60)
    assert runner.wait(timeout=60) == 0
    assert (watcher.returncode, err) == (0, "")
    assert "s1  waits@1.0.0  COMPLETED  OK" in late
    assert "s2  steady@1.0.0  COMPLETED  OK" in late
    assert (told + late).count("flaky@1.0.0  COMPLETED") == 1
    seal = reenact("show", run_id, "--json").json["seal"]["seal_digest"]
    assert seal in late
    runner.communicate()


def test_ctrl_c_ends_the_watching_and_not_the_run(reenact: Command, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    runner, run_id = waiting_run(reenact, gate)
    watcher = reenact.start("show", run_id, "--watch")
    assert watcher.stdout is not None
    assert run_id in watcher.stdout.readline()
    watcher.send_signal(signal.SIGINT)
    _, err = watcher.communicate(timeout=60)
    assert (watcher.returncode, err) == (130, "watching ended; the run is not touched by that\n")
    gate.touch()
    runner.communicate(timeout=60)
    assert runner.returncode == 0


def test_a_run_that_nobody_works_on_is_called_that(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "steady"}, {"skill_id": "steady"})
    assert reenact("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="before_dispatch:2").code == -signal.SIGKILL
    watcher = reenact.start("show", "last", "--watch")
    assert watcher.stderr is not None
    remark = watcher.stderr.readline()
    assert "nobody works on it: `reenact resume" in remark
    assert reenact("recover", "--skills", SKILLS).code == 0
    out, _ = watcher.communicate(timeout=60)
    assert watcher.returncode == 0
    assert "s1  steady@1.0.0  COMPLETED" in out


def test_programs_get_one_document_when_it_has_ended(reenact: Command, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    runner, run_id = waiting_run(reenact, gate)
    watcher = reenact.start("show", run_id, "--watch", "--json")
    gate.touch()
    out, err = watcher.communicate(timeout=60)
    runner.communicate(timeout=60)
    assert (watcher.returncode, err) == (0, "")
    assert json.loads(out)["status"] == "completed"
    assert json.loads(out) == reenact("show", run_id, "--json").json


def test_a_run_that_has_ended_is_shown_and_that_is_all(recorded: Command) -> None:
    done = recorded("show", "last", "--watch", "--values")
    assert done.code == 0
    assert "s1  steady@1.0.0  COMPLETED  OK" in done.out
    assert "seal  " in done.out


def test_a_terminal_is_redrawn_and_keeps_the_whole_timeline(reenact: Command, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    runner, run_id = waiting_run(reenact, gate)
    ours, theirs = os.openpty()
    watcher = subprocess.Popen(
        reenact.argv("show", run_id, "--watch"), cwd=reenact.folder, stdin=theirs, stdout=theirs, stderr=theirs,
        env=reenact.env(TERM="xterm-256color", COLUMNS="100", LINES="12", NO_COLOR="1"),
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while b"EXECUTING" not in seen:
        seen += os.read(ours, 65536)
    gate.touch()
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:
        pass  # how Linux says that the other side has closed the terminal
    finally:
        os.close(ours)
    assert watcher.wait(timeout=60) == 0
    runner.communicate(timeout=60)
    text = seen.decode()
    assert "\x1b[2K" in text  # drawn over
    final = text[text.rindex("run   ") :]
    assert [f"s{number}" in final for number in range(3)] == [True, True, True]
    assert "seal  " in final
