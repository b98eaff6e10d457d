"""A standby is read by who audits, and takes the place of its primary with every commit that was acknowledged."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reenact.replay.runtime import Runtime
from reenact.store.checks.verification import verify_run
from reenact.store.doctor.examine import examine
from reenact.store.open import grants, open_store, upgrade
from reenact.values.clock import SystemClock
from tests.cli.harness import Command, error_line
from tests.postgres.server import Replica, Server
from tests.store.checks.store_file import PLAN, REGISTRY

ENOUGH = 3


@pytest.fixture
def primary() -> Iterator[Server]:
    with Server() as server:
        yield server


def follow_all_commits(primary: Server) -> None:
    """From here on a commit is acknowledged when a standby has it too."""
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.execute("SELECT pg_reload_conf()")


def run_plans(url: str, acknowledged: Path) -> int:
    """A process that runs plan after plan, and writes down which have ended; its number."""
    child = os.fork()
    if child == 0:
        try:
            with closing(Runtime(url, skills=REGISTRY)) as runtime, acknowledged.open("a", encoding="ascii") as ended:
                while True:
                    print(runtime.run(PLAN).run_id, file=ended, flush=True)
        finally:
            os._exit(1)
    return child


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="ascii").split() if file.exists() else []


def test_an_auditors_commands_work_on_a_replica(
    primary: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    primary.execute(grants(primary.url(), owner="reenact"), database="reenact")
    upgrade(primary.url())
    primary.execute(grants(primary.url(), owner="reenact"), database="reenact")
    primary.execute(f"ALTER ROLE reenact_auditor LOGIN PASSWORD '{primary.password}'")
    with closing(Runtime(primary.url(), skills=REGISTRY)) as runtime:
        run_id = runtime.run(PLAN).run_id
    with Replica(primary) as replica:
        replica.catch_up()
        command = Command(tmp_path)
        here = {"REENACT_STORE": replica.url(role="reenact_auditor"), "XDG_DATA_HOME": str(tmp_path / "elsewhere")}
        for words in (("ls",), ("show", run_id[:13]), ("verify", "last"), ("export", run_id, "--to", "bundle")):
            done = command(*words, **here)
            assert (done.code, done.err) == (0, ""), words
            assert replica.password not in done.out
        assert command("verify", "bundle").code == 0
        plan = command.plan({"skill_id": "json_transform", "parameters": {"data": [2, 1], "operation": "sort"}})
        refused = command("run", plan, "--store", replica.url(), XDG_DATA_HOME=str(tmp_path / "data"))
        assert (refused.code, "name the primary" in error_line(refused)) == (3, True)
        assert replica.password not in refused.err


def test_with_a_standby_that_confirms_commits_none_that_was_acknowledged_is_lost(
    primary: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    acknowledged = tmp_path / "acknowledged"
    open_store(primary.url()).close()
    with Replica(primary) as replica:
        follow_all_commits(primary)
        child = run_plans(primary.url(), acknowledged)
        until = time.monotonic() + 60
        while len(lines(acknowledged)) < ENOUGH:
            assert time.monotonic() < until
            time.sleep(0.02)
        primary.stop("kill")
        ended = lines(acknowledged)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        replica.promote()
        with closing(Runtime(replica.url(), skills=REGISTRY)) as runtime:
            runtime.recover()
            assert {row.status for row in runtime.store.runs()} == {"completed"}
            assert {row.run_id for row in runtime.store.runs()} >= set(ended)
            assert {verify_run(replica.url(), row.run_id).exit_code for row in runtime.store.runs()} == {0}
            assert runtime.run(PLAN).status == "completed"


def test_a_doctor_says_what_may_be_lost(primary: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def durability() -> str:
        return next(each.says for each in examine(primary.url(), SystemClock()) if each.subject == "durability")

    open_store(primary.url()).close()
    assert "fsync off" in durability()
    primary.settings["fsync"] = "on"
    primary.restart("fast")
    assert "no standby has to confirm a commit" in durability()
    with Replica(primary):
        follow_all_commits(primary)
        until = time.monotonic() + 10
        while "a commit is confirmed by" not in durability():
            assert time.monotonic() < until
