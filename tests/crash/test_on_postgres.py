"""What holds of a store in a file when processes are killed holds of one in a database; and when its server crashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.runtime.crash_points import CRASH_POINTS
from reenact.store.open import open_store
from tests.cli.harness import Command
from tests.conftest import ROOT
from tests.crash.harness import KILLED, Stage, check_survived, in_child, look, recover
from tests.crash.test_crash_points import IN_RECOVERY, five_runs
from tests.postgres.fixtures import schema_at
from tests.postgres.server import Server

WORLD = str(Path(__file__).with_name("world.py"))


@pytest.mark.parametrize(
    ("point", "times"), [(point, 1 + place % 3) for place, point in enumerate(CRASH_POINTS) if point not in IN_RECOVERY]
)
def test_a_run_survives_kill_9_at(point: str, times: int, elsewhere: Stage) -> None:
    assert in_child(lambda: five_runs(elsewhere), crash_at=f"{point}:{times}") == KILLED
    before = look(elsewhere)
    recover(elsewhere)
    check_survived(elsewhere, before)


@pytest.mark.parametrize("point", IN_RECOVERY)
def test_a_run_survives_kill_9_during_its_recovery_twice_in_a_row_at(point: str, elsewhere: Stage) -> None:
    assert in_child(lambda: elsewhere.runtime().run(elsewhere.plan()), crash_at="after_dispatch:2") == KILLED
    for _ in range(2):
        assert in_child(lambda: recover(elsewhere), crash_at=point) == KILLED
    before = look(elsewhere)
    recover(elsewhere)
    check_survived(elsewhere, before)


# -- the command line ----------------------------------------------------------------------------------------------


def reenact(stage: Stage, *words: str, code: int = 0) -> str:
    done = Command(stage.folder)(*words, REENACT_STORE=stage.url)
    assert done.code == code, (words, done.out, done.err)
    password = stage.url.partition("@")[0].rpartition(":")[2]
    assert password not in done.out + done.err
    return done.out


def test_the_command_line_needs_the_url_alone(elsewhere: Stage) -> None:
    plan = elsewhere.folder / "plan.json"
    plan.write_text(json.dumps(elsewhere.plan()))
    assert in_child(lambda: elsewhere.runtime().run(elsewhere.plan()), crash_at="after_dispatch:2") == KILLED
    reenact(elsewhere, "ls")
    reenact(elsewhere, "recover", "--skills", WORLD)
    reenact(elsewhere, "run", str(plan), "--skills", WORLD)
    reenact(elsewhere, "show", "last")
    reenact(elsewhere, "verify", "last")
    reenact(elsewhere, "replay", "last", "--skills", WORLD)
    reenact(elsewhere, "export", "last", "--to", "bundle")
    reenact(elsewhere, "verify", "bundle")
    assert "write-ahead log" in reenact(elsewhere, "erase", "last", "keyed", "--reason", "asked for", "--yes")
    reenact(elsewhere, "verify", "last")
    reenact(elsewhere, "archive", "--older-than", "1d", code=2)
    reenact(elsewhere, "archive", "--older-than", "1d", "--to", "kept")
    (trouble,) = [line for line in reenact(elsewhere, "doctor", code=3).splitlines() if line.startswith("trouble")]
    assert "fsync off" in trouble, "the tests' own server is quick, and not durable"
    told = json.loads(reenact(elsewhere, "ls", "--json"))
    assert [run["status"] for run in told] == ["completed", "completed"]


# -- the server ----------------------------------------------------------------------------------------------------


@pytest.fixture
def fragile(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Stage, Server]]:
    """A store in a server of its own, which may be killed: what is acknowledged there is on its disk."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with Server(settings={"fsync": "on", "synchronous_commit": "off"}) as server, schema_at(server.url()) as url:
        yield Stage(stage.folder, url), server


def test_runs_go_on_over_two_crashes_of_the_server(fragile: tuple[Stage, Server]) -> None:
    stage, server = fragile
    runtime = stage.runtime()
    runtime.run(stage.plan("before"))
    for number in range(2):
        before = look(stage)
        server.restart("immediate")
        runtime.run(stage.plan(f"p{number}"))
        check_survived(stage, before)
    runtime.close()


def test_what_was_acknowledged_is_there_after_a_crash_whatever_the_servers_default(
    fragile: tuple[Stage, Server],
) -> None:
    stage, server = fragile
    runtime = stage.runtime()
    runtime.run(stage.plan())
    before = look(stage)
    server.restart("kill")
    store = open_store(stage.url)
    assert {row.run_id: len(list(store.bodies(row.run_id))) for row in store.runs()} == {
        run_id: len(run.bodies) for run_id, run in before.runs.items()
    }
    store.close()
    runtime.close()


def test_a_server_that_is_not_there_is_one_line_and_soon_told(fragile: tuple[Stage, Server]) -> None:
    stage, server = fragile
    stage.runtime().run(stage.plan())
    server.stop()
    began = time.monotonic()
    told = subprocess.run(
        [sys.executable, "-m", "reenact", "ls", "--store", stage.url],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (3, "", 1), told.stderr
    assert "cannot be reached" in told.stderr
    assert time.monotonic() - began < 30
    server.start()
