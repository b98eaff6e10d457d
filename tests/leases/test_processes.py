"""Leases between real processes: clocks that are a year off, processes that are stopped, a person who breaks one."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from reenact import Runtime
from reenact.errors import ConcurrentExecution, LockAcquireFailed, StoreBusy
from reenact.runtime.conduct import conduct
from reenact.runtime.opening import reopen
from reenact.store import heartbeat
from reenact.store.checks.verification import verify_run
from reenact.store.keys.notes import Note, is_signed_note
from reenact.store.sqlite.appending import Appender
from reenact.store.sqlite.trouble.waiting import STOPPED_S
from tests.cli.harness import Command
from tests.crash.harness import KILLED, SKILLS, Stage, check_survived, in_child, look
from tests.runtime.clocks import LaterClock
from tests.runtime.running import Bench, plan, step
from tests.runtime.test_leases import Pipe, ended, fork, sleeper

YEAR_S = 365 * 86_400.0
TOLD_S = 10.0
"""What the manual promises."""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


class Patient(LaterClock):
    """Sleeps at once, and then so much later it is."""

    async def sleep(self, seconds: float) -> None:
        self.later_ms += int(seconds * 1000) + 1
        await asyncio.sleep(0)


def elsewhere() -> None:
    """From here on this process is one of another host, as far as others can see."""
    platform.node = lambda: "elsewhere"


@pytest.mark.parametrize("off_s", [YEAR_S, -YEAR_S, 8000 * YEAR_S - 60 * YEAR_S])
def test_a_lease_from_a_clock_that_is_off_is_taken_over_once_it_was_watched(stage: Stage, off_s: float) -> None:
    """Whatever the deadline in the row says: years ahead, it blocked its run for as many."""

    def run_elsewhere() -> None:
        elsewhere()
        Runtime(stage.store_path, skills=SKILLS, clock=LaterClock(off_s)).run(stage.plan())

    assert in_child(run_elsewhere, crash_at="after_dispatch:2") == KILLED
    before = look(stage)
    clock = Patient(0)
    (result,) = Runtime(stage.store_path, skills=SKILLS, clock=clock).recover()
    assert (result.status, result.error) == ("completed", None)
    assert 9_000 < clock.later_ms < 12_000, "it watched for as long as a lease lasts"
    check_survived(stage, before)


@pytest.mark.parametrize("off_s", [YEAR_S, -YEAR_S])
def test_a_holder_that_renews_is_left_alone_whatever_its_clock_says(stage: Stage, off_s: float) -> None:
    inside, go_on = Pipe(), Pipe()
    slow = sleeper(stage, inside, go_on)

    def work() -> None:
        elsewhere()
        heartbeat.INTERVAL_S = 0.2
        runtime = Runtime(stage.store_path, skills=[slow], clock=LaterClock(off_s))
        assert runtime.run(plan(step(slow, {"n": 1}))).status == "completed"

    child = fork(work)
    inside.wait()
    runtime = Runtime(stage.store_path, skills=[slow])
    (row,) = runtime.store.runs()
    began = time.monotonic()
    with pytest.raises(LockAcquireFailed, match="is being worked on by elsewhere"):
        runtime.resume(row.run_id)
    assert time.monotonic() - began < TOLD_S, "a renewal is a sign of life: nobody waits for a second one"
    go_on.tell()
    assert ended(child) == 0
    assert runtime.store.find_run(row.run_id).status == "completed"


def test_recover_exits_4_over_a_run_that_it_cannot_take_and_says_whose_it_is(stage: Stage, tmp_path: Path) -> None:
    inside, go_on = Pipe(), Pipe()
    slow = sleeper(stage, inside, go_on)
    child = fork(lambda: Bench(stage.folder, slow).run(step(slow, {"n": 1})))
    inside.wait()
    done = Command(tmp_path)("recover", "--store", stage.store_path)
    go_on.tell()
    assert ended(child) == 0
    assert done.code == 4
    assert f"process {child}" in done.out
    assert "its last sign of life was at 20" in done.out


def test_a_person_breaks_a_lease_and_it_is_on_record_and_the_holder_writes_nothing_more(
    stage: Stage, tmp_path: Path
) -> None:
    """Stopped inside a skill, its lease broken, the run gone on with; woken, it is refused."""
    inside, go_on = Pipe(), Pipe()
    slow = sleeper(stage, inside, go_on)
    child = fork(lambda: Bench(stage.folder, slow).run(step(slow, {"n": 1})))
    inside.wait()
    os.kill(child, signal.SIGSTOP)
    runtime, command = Runtime(stage.store_path, skills=[slow]), Command(tmp_path)
    (row,) = runtime.store.runs()
    with pytest.raises(LockAcquireFailed):
        reopen(runtime, row.run_id)
    assert command("break-lease", row.run_id, "--store", stage.store_path).code == 2, "it needs a reason"
    done = command("break-lease", row.run_id, "--store", stage.store_path, "--reason", "stuck", "--who", "ada")
    assert done.code == 0, done.err
    assert f"was taken from {platform.node()}" in done.out
    assert "stopped" in done.err
    mine = reopen(runtime, row.run_id)
    go_on.tell()
    os.kill(child, signal.SIGCONT)
    assert ended(child) == 3, "the fence has the last word"
    assert asyncio.run(conduct(runtime, mine)).status == "completed"
    assert len(stage.ledger.calls()) == 1, "what the one that was fenced off got is used"

    (broken,) = runtime.store.broken_leases(row.run_id)
    assert (broken.who, broken.reason, broken.token) == ("ada", "stuck", 1)
    assert broken.owner.split("|")[1] == str(child)
    with closing(sqlite3.connect(stage.store_path)) as db:
        columns = "schema, store_id, digest, kid, signature, record"
        (note,) = db.execute(f"SELECT {columns} FROM notes WHERE schema = 'reenact.lease_broken.v1'").fetchall()
    assert is_signed_note(runtime.store.public_keys(), Note(*note))
    assert msgspec.json.decode(note[5])["run_id"] == row.run_id
    assert verify_run(stage.store_path, row.run_id).exit_code == 0
    again = command("break-lease", row.run_id, "--store", stage.store_path, "--reason", "x")
    assert (again.code, "has ended" in again.err) == (2, True)


def test_a_lease_that_nobody_has_is_not_broken(stage: Stage, tmp_path: Path) -> None:
    assert in_child(lambda: stage.runtime().run(stage.plan()), crash_at="after_dispatch:2") == KILLED
    runtime, command = stage.runtime(), Command(tmp_path)
    (row,) = runtime.store.runs()
    lease = runtime.store.acquire(row.run_id, "me")
    runtime.store.release(lease)
    done = command("break-lease", row.run_id, "--store", stage.store_path, "--reason", "x")
    assert (done.code, done.out.startswith("nobody holds run")) == (0, True)
    assert runtime.store.broken_leases(row.run_id) == []


def test_what_the_holder_commits_after_its_lease_was_broken_is_refused(stage: Stage) -> None:
    """Also where nobody has taken the run since."""
    assert in_child(lambda: stage.runtime().run(stage.plan()), crash_at="after_dispatch:2") == KILLED
    runtime = stage.runtime()
    (row,) = runtime.store.runs()
    mine = reopen(runtime, row.run_id)
    assert runtime.store.break_lease(row.run_id, who="ada", reason="x") is not None
    with pytest.raises(ConcurrentExecution):
        asyncio.run(conduct(runtime, mine))


def frozen_in_mid_commit(stage: Stage) -> int:
    """A process that was stopped inside its second commit, and holds the store's write lock."""
    append = Appender.append
    ready = Pipe()

    def stop(self: Appender, unit: object, *more: object) -> object:
        done = append(self, unit, *more)  # type: ignore[arg-type]
        if unit.n == 2:  # type: ignore[attr-defined]
            ready.tell()
            os.kill(os.getpid(), signal.SIGSTOP)
        return done

    def work() -> None:
        Appender.append = stop  # type: ignore[assignment,method-assign]
        stage.runtime().run(stage.plan())

    child = fork(work)
    ready.wait()
    while Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)
    return child


def test_a_writer_that_was_stopped_in_mid_commit_is_named_within_the_bound(stage: Stage) -> None:
    """Others were told after two minutes, and only that somebody was busy: waits for a busy file added up."""
    child = frozen_in_mid_commit(stage)
    try:
        runtime = stage.runtime()
        began = time.monotonic()
        with pytest.raises(StoreBusy) as told:
            runtime.run(stage.plan("mine"))
        waited = time.monotonic() - began
        assert STOPPED_S <= waited < TOLD_S, waited
        said = str(told.value)
        assert f"held by process {child} on {platform.node()}" in said
        assert "its last sign of life was at 20" in said
        assert f"`kill -KILL {child}`" in said
        assert "\n" not in said
        began = time.monotonic()
        with pytest.raises(StoreBusy, match=f"process {child}"):
            runtime.run(stage.plan("mine again"))
        assert time.monotonic() - began < STOPPED_S, "who has waited in vain does not wait as long again"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert runtime.run(stage.plan("mine at last")).status == "completed"
    assert {result.status for result in runtime.recover()} == {"completed"}


def test_a_writer_that_goes_on_in_time_is_waited_for(stage: Stage) -> None:
    child = frozen_in_mid_commit(stage)
    continued = fork(lambda: (time.sleep(2), os.kill(child, signal.SIGCONT)))
    assert stage.runtime().run(stage.plan("mine")).status == "completed"
    assert (ended(continued), ended(child)) == (0, 0)
