"""Several workers at one store in a database: killed, stopped for longer than a lease; its server crashes twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from reenact.errors import StoreError
from reenact.store.open import open_store
from reenact.store.postgres.store import PostgresStore
from tests.conftest import ROOT
from tests.crash.harness import Before, Stage, check_survived
from tests.postgres.fixtures import schema_at
from tests.postgres.pooler import Pooler
from tests.postgres.server import Server

WORLD = str(Path(__file__).with_name("world.py"))
RUNS = int(os.environ.get("CROWD_RUNS", "12"))
WORKERS = 3
POOLED = bool(os.environ.get("CROWD_POOLED"))
"""Everybody goes through a transaction pooler with two backends."""
SEED = int(os.environ.get("CROWD_SEED", "7"))
SLOW = float(os.environ.get("CROWD_SLOW", "1"))
"""So many times longer between two blows: for a machine that has other things to do."""
PATIENCE_S = 150 + 5 * RUNS * SLOW
WORK = """
import sys
from pathlib import Path
from reenact.errors import ReenactError
from tests.crash.harness import Stage
stage, first, count = Stage(Path(sys.argv[1]), sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
runtime = stage.runtime()
for number in range(first, first + count):
    try:
        runtime.run(stage.plan(f"p{number}"))
    except ReenactError as error:
        print(type(error).__name__, error, flush=True)
while True:
    try:
        for result in runtime.recover(timeout_s=20):
            print(type(result.error).__name__, result.error, flush=True)
        break
    except ReenactError as error:
        print(type(error).__name__, error, flush=True)
"""


@pytest.fixture
def fragile(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Stage, Server]]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with ExitStack() as opened:
        server = opened.enter_context(Server())
        url = opened.enter_context(schema_at(server.url()))
        if POOLED:
            url = opened.enter_context(Pooler(server)).url_of(url)
        yield Stage(stage.folder, url), server


def worker(stage: Stage, first: int, count: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-c", WORK, str(stage.folder), stage.url, str(first), str(count)]
    with said(stage).open("ab") as file:
        return subprocess.Popen(command, env=environment, stdout=file)


def woken(sleeper: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    sleeper.send_signal(signal.SIGCONT)
    return sleeper


def said(stage: Stage) -> Path:
    """What workers were refused."""
    return stage.folder / "said"


def open_runs(stage: Stage) -> int | None:
    """How many have not ended; None while the server is not there."""
    try:
        store = open_store(stage.url)
        found = [row for row in store.runs() if row.status not in ("completed", "failed", "cancelled")]
        store.close()
    except StoreError:
        return None
    return len(found)


def holding(stage: Stage, workers: list[subprocess.Popen[bytes]]) -> int | None:
    """One that works on a run just now."""
    try:
        store = open_store(stage.url)
        held = [store.open_run(row.run_id) for row in store.runs(status=("running",))]
        store.close()
    except StoreError:
        return None
    pids = {run.owner.split("|")[1] for run in held if run is not None and run.owner is not None}
    return next((number for number in range(WORKERS) if str(workers[number].pid) in pids), None)


@pytest.mark.timeout(PATIENCE_S + 60)
def test_every_run_ends_and_nothing_recorded_is_done_again(fragile: tuple[Stage, Server]) -> None:
    """The tool honours our key, so what was in doubt may be sent again, and is there once."""
    stage, server = fragile
    open_store(stage.url).close()
    chance, share = random.Random(SEED), RUNS // WORKERS
    workers = [worker(stage, number * share, share) for number in range(WORKERS)]
    kills = stops = crashes = 0
    until = time.monotonic() + PATIENCE_S
    asleep: list[tuple[float, subprocess.Popen[bytes]]] = []
    while kills + stops < RUNS and time.monotonic() < until - 100:
        time.sleep(chance.uniform(0.2, 0.8) * SLOW)
        number = chance.randrange(WORKERS)
        if asleep and asleep[0][0] < time.monotonic():
            workers.append(woken(asleep.pop(0)[1]))
        holder = holding(stage, workers) if chance.random() < 0.5 and len(asleep) < 2 else None
        if holder is not None:
            number = holder
            workers[number].send_signal(signal.SIGSTOP)
            asleep.append((time.monotonic() + 11 + 3 * SLOW, workers[number]))
            workers[number] = worker(stage, 0, 0)
            stops += 1
        else:
            workers[number].kill()
            workers[number].wait()
            workers[number] = worker(stage, RUNS + kills * 2, 2)
            kills += 1
        if kills + stops in (RUNS // 3, 2 * RUNS // 3) and crashes < 2:
            server.restart("immediate")
            crashes += 1
    for due, process in asleep:
        time.sleep(max(0.0, due - time.monotonic()))
        workers.append(woken(process))
    for process in workers:
        assert process.wait(timeout=max(1.0, until - time.monotonic())) == 0
    while open_runs(stage) != 0:
        assert time.monotonic() < until
        assert worker(stage, 0, 0).wait(timeout=60) == 0
    check_survived(stage, Before({}, 0))
    store = open_store(stage.url)
    assert isinstance(store, PostgresStore)
    ((late,),) = store.database.ask("SELECT count(*) FROM :schema.late_effects")
    refused = said(stage).read_text().count("ConcurrentExecution")
    print(
        f"{len(store.runs())} runs, {kills} kills, {stops} stops, {crashes} crashes, {refused} sleepers refused, "
        f"{late} results left, seed {SEED}{', through a pooler' if POOLED else ''}"
    )
    store.close()
