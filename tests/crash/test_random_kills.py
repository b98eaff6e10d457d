"""The real command line, killed at random moments: twenty times, then recovered and verified by the command line."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from reenact.store.open import open_store
from tests.cli.harness import Command
from tests.conftest import ROOT
from tests.crash.harness import Before, Stage, check_survived, folded, look
from tests.engines import places
from tests.engines.places import ask

KILLS = 12
PATIENCE_S = 120
SKILLS = str(Path(__file__).with_name("world.py"))


def command(stage: Stage, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "reenact", *arguments, "--store", stage.url]


def start(stage: Stage, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "NO_COLOR": "1"}
    return subprocess.Popen(
        [*command(stage, *arguments), "--skills", SKILLS],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def ended_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def writes(stage: Stage) -> int:
    """Moves whenever something is written to the store."""
    if places.database is not None:
        with suppress(psycopg.Error):
            return int(ask(stage.store_path, "SELECT count(*) FROM commits")[0][0])
        return 0
    try:
        return Path(f"{stage.store_path}-wal").stat().st_mtime_ns
    except OSError:
        return 0


def begin(stage: Stage, *arguments: str) -> subprocess.Popen[bytes]:
    """A process that has begun to write: how long its imports take on this machine does not matter."""
    seen = writes(stage)
    process = start(stage, *arguments)
    until = time.monotonic() + PATIENCE_S
    while writes(stage) == seen and not ended_within(process, 0.002):
        assert time.monotonic() < until, "it never wrote anything"
    return process


def span(stage: Stage, plan: Path) -> float:
    """How long a run writes here, from its first commit to its last."""
    process = begin(stage, "run", str(plan))
    began = last = writes(stage)
    while not ended_within(process, 0.005):
        last = max(last, writes(stage))
    assert process.returncode == 0
    return (last - began) / 1e9


def place(stage: Stage, run_id: str) -> str:
    """Where a run stands, for the histogram."""
    store = open_store(stage.url)
    fold, _ = folded(run_id, list(store.bodies(run_id)))
    store.close()
    if fold.seal is not None:
        return "sealed"
    open_trace = next(iter(fold.open.values()), None)
    if open_trace is None:
        return "between steps"
    waiting = f" after {len(open_trace.attempts)} attempts" if open_trace.attempts else ""
    return f"{open_trace.step_id} {open_trace.state}{waiting}"


def write_plan(stage: Stage) -> Path:
    first = stage.plan("random kills")
    steps = first["steps"]
    assert isinstance(steps, list)
    for number in range(6):
        parameters = {"ledger": stage.ledger_path, "failures": number % 3}
        steps.append({"step_id": f"more{number}", "skill_id": "flaky", "parameters": parameters})
    path = stage.folder / "plan.json"
    path.write_text(json.dumps(first), encoding="utf-8")
    return path


def kill_at_random(stage: Stage, plan: Path, rng: random.Random, length: float, number: int) -> tuple[str, Before]:
    """Every fourth time it is a recovery that dies."""
    arguments = ("recover",) if number % 4 == 3 else ("run", str(plan))
    process = begin(stage, *arguments)
    ended_within(process, rng.uniform(0, length))
    process.kill()
    process.wait()
    before = look(stage)
    newest = max(before.runs, default="")
    return f"{arguments[0]}: {place(stage, newest) if newest else 'before its first commit'}", before


def test_the_command_line_survives_random_kills(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    plan = write_plan(stage)
    length = span(stage, plan)
    landed: Counter[str] = Counter()
    snapshots = []
    for number in range(KILLS):
        where, before = kill_at_random(stage, plan, rng, length, number)
        landed[where] += 1
        snapshots.append(before)
    with capsys.disabled():
        print(f"\n{KILLS} random kills, seed {seed}:")
        for where, times in sorted(landed.items()):
            print(f"  {times:3d}  {where}")
    process = start(stage, "recover")
    assert ended_within(process, PATIENCE_S)
    assert process.returncode == 0
    for before in snapshots:
        check_survived(stage, before)
    check_every_run_with_the_command_line(stage)


def check_every_run_with_the_command_line(stage: Stage) -> None:
    """None of these is killed: they need no interpreter of their own."""
    reenact = Command(stage.folder)
    for run in sorted(look(stage).runs):
        done = reenact("verify", run, "--store", stage.url)
        assert done.code == 0, done.out + done.err
