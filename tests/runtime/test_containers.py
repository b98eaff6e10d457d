"""A service that is started again in a new container cannot see that the process before it is gone."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.store.base import LEASE_MS
from reenact.store.owner import is_out_of_sight, owner_name
from reenact.values.clock import SystemClock
from tests.cli.harness import Command
from tests.crash.harness import KILLED, SKILLS, Stage, in_child

ELSEWHERE = "box/4026532273|7|1234|nonce"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Of a run that was killed in another container a moment ago."""
    stage = Stage(tmp_path)
    assert in_child(lambda: stage.runtime().run(stage.plan()), crash_at="after_dispatch:2") == KILLED
    taken(stage, ELSEWHERE, LEASE_MS)
    return stage


def taken(stage: Stage, owner: str, for_ms: int) -> None:
    with sqlite3.connect(stage.store_path) as db:
        db.execute("UPDATE runs SET owner = ?, expires_ms = ?", (owner, SystemClock().now_ms() + for_ms))
    db.close()


class Hasty(SystemClock):
    """Sleeps at once; `meanwhile` happens."""

    def __init__(self, meanwhile: object = None) -> None:
        super().__init__()
        self.slept: list[float] = []
        self.meanwhile = meanwhile

    def now_ms(self) -> int:
        return super().now_ms() + round(sum(self.slept) * 1000)

    def monotonic(self) -> float:  # type: ignore[override]  # a function of the system's elsewhere
        return time.monotonic() + sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if callable(self.meanwhile):
            self.meanwhile()


def test_recover_waits_until_the_lease_of_a_process_that_it_cannot_see_has_ended(stage: Stage) -> None:
    clock = Hasty()
    (result,) = Runtime(stage.url, skills=SKILLS, clock=clock).recover()
    assert (result.status, result.reason) == ("completed", None)
    assert LEASE_MS / 2000 < clock.slept[0] < LEASE_MS / 1000 + 1


def test_recover_leaves_a_run_whose_lease_was_renewed_meanwhile(stage: Stage) -> None:
    clock = Hasty(lambda: taken(stage, ELSEWHERE, 2 * LEASE_MS))
    (result,) = Runtime(stage.url, skills=SKILLS, clock=clock).recover()
    assert result.status == "running"
    assert "is being worked on by box/4026532273 process 7" in str(result.reason)
    assert len(clock.slept) == 1


def test_recover_waits_for_nobody_whom_it_can_see(stage: Stage) -> None:
    here = owner_name("another")
    assert (is_out_of_sight(here), is_out_of_sight(ELSEWHERE)) == (False, True)
    taken(stage, here, LEASE_MS)
    clock = Hasty()
    (result,) = Runtime(stage.url, skills=SKILLS, clock=clock).recover()
    assert (result.status, clock.slept) == ("running", [])


def test_the_command_waits_too(stage: Stage, tmp_path: Path) -> None:
    taken(stage, ELSEWHERE, 4000)  # longer than a busy machine needs to start the command
    world = Path(__file__).parents[1] / "crash" / "world.py"
    done = Command(tmp_path)("recover", "--store", stage.url, "--skills", str(world))
    assert done.code == 0, done.err
    assert "until it is known whether other hosts or containers still work" in done.err
    assert "completed" in done.out
