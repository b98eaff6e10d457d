"""Who may work on a run: one at a time, and whoever slept through its lease leaves what it got to the next."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.errors import ConcurrentExecution, LockAcquireFailed
from reenact.runtime import run as run_module
from reenact.runtime.conduct import conduct
from reenact.runtime.opening import reopen
from reenact.skills.skill import Skill
from reenact.store import heartbeat
from tests.crash.harness import KILLED, SKILLS, Stage, check_survived, in_child, look
from tests.crash.world import Ledger
from tests.engines.places import ask
from tests.runtime.clocks import LaterClock, watched_for
from tests.runtime.running import Bench, step

LEASE_S = 11.0


def later(stage: Stage, *skills: Skill) -> Runtime:
    """Another executor, that has seen no renewal of the first one's lease for longer than it lasts."""
    return watched_for(Runtime(stage.url, skills=skills or SKILLS, clock=LaterClock(LEASE_S)), LEASE_S)


def test_two_executors_race_for_a_crashed_run_and_one_of_them_gets_it(stage: Stage) -> None:
    assert in_child(lambda: stage.runtime().run(stage.plan()), crash_at="after_dispatch:2") == KILLED
    before = look(stage)
    (run_id,) = before.runs
    ends: list[object] = []
    ready = threading.Barrier(4)

    def race() -> None:
        runtime = stage.runtime()
        ready.wait()
        try:
            ends.append(runtime.resume(run_id).status)
        except LockAcquireFailed as error:
            ends.append(error.code)

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(ends) <= {"completed", "STATE_LOCK_ACQUIRE_FAILED"}
    assert "completed" in ends
    check_survived(stage, before)


def test_one_of_two_executors_appends_and_the_other_gets_the_stable_code(stage: Stage) -> None:
    assert in_child(lambda: stage.runtime().run(stage.plan()), crash_at="after_dispatch:2") == KILLED
    before = look(stage)
    (run_id,) = before.runs
    first = stage.runtime()
    asleep = reopen(first, run_id)
    second = later(stage)
    awake = reopen(second, run_id)
    assert asyncio.run(conduct(second, awake)).status == "completed"
    with pytest.raises(ConcurrentExecution) as refused:
        asyncio.run(conduct(first, asleep))
    assert refused.value.code == "STATE_CONCURRENT_EXECUTION"
    check_survived(stage, before)


class Pipe:
    """One process waits for another."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()

    def tell(self) -> None:
        os.write(self.write_end, b"x")

    def wait(self) -> None:
        os.read(self.read_end, 1)


def sleeper(stage: Stage, inside: Pipe, go_on: Pipe) -> Skill:
    """A skill that acts, and then takes its time."""

    @skill("slow", version="1.0.0", tool_class="write")
    def slow(ctx: SkillContext, n: int) -> str:
        book = Ledger(stage.ledger_path)
        book.arrive(ctx)
        book.act(ctx)
        inside.tell()
        go_on.wait()
        return f"what the sleeper got for {n}"

    return slow


def fork(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except ConcurrentExecution:
            code = 3
        finally:
            os._exit(code)
    return pid


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_sleeper_that_wakes_after_its_lease_is_refused_and_its_result_is_used(stage: Stage) -> None:
    """Stopped inside a skill, its lease taken; woken, it leaves what it got; the new owner asks there first."""
    inside, go_on = Pipe(), Pipe()
    slow = sleeper(stage, inside, go_on)
    child = fork(lambda: Bench(stage.folder, slow).run(step(slow, {"n": 1}), step(slow, {"n": 2})))
    inside.wait()
    os.kill(child, signal.SIGSTOP)
    runtime = later(stage, slow)
    (row,) = runtime.store.runs()
    mine = reopen(runtime, row.run_id)
    go_on.tell()
    os.kill(child, signal.SIGCONT)
    assert ended(child) == 3
    (trace,) = mine.journal.fold.open.values()
    assert len(runtime.store.late_effects(row.run_id, trace.trace_id)) == 1

    go_on.tell()  # for the second step, which is ours
    result = asyncio.run(conduct(runtime, mine))
    assert result.status == "completed"
    assert result.get_step("s0").outcome.output == "what the sleeper got for 1"
    assert [call.step_id for call in stage.ledger.calls()] == ["s0", "s1"], "the sleeper's call was not made again"
    bench = Bench(stage.folder)
    (first, _) = bench.traces(row.run_id)
    assert [attempt.kind for attempt in first.attempts] == ["attempt"]
    bench.check(row.run_id)


def test_a_sleeper_that_wakes_too_late_changes_nothing(stage: Stage) -> None:
    """The new owner has dispatched again by then: the same call with the same key."""
    inside, go_on = Pipe(), Pipe()
    slow = sleeper(stage, inside, go_on)
    child = fork(lambda: Bench(stage.folder, slow).run(step(slow, {"n": 1})))
    inside.wait()
    os.kill(child, signal.SIGSTOP)
    runtime = later(stage, slow)
    (row,) = runtime.store.runs()
    go_on.tell()
    assert runtime.resume(row.run_id).status == "completed"
    bodies = list(runtime.store.bodies(row.run_id))
    go_on.tell()
    os.kill(child, signal.SIGCONT)
    assert ended(child) == 3
    assert list(runtime.store.bodies(row.run_id)) == bodies
    assert len(stage.ledger.calls()) == 2
    assert len(stage.ledger.effects()) == 1
    (trace,) = Bench(stage.folder).traces(row.run_id)
    assert [attempt.kind for attempt in trace.attempts] == ["redispatch", "attempt"]
    assert len(runtime.store.late_effects(row.run_id, trace.trace_id)) == 1
    Bench(stage.folder).check(row.run_id)


def test_nothing_is_dispatched_under_a_lease_that_was_lost(stage: Stage) -> None:
    """The second step of an executor that lost its lease in the first goes nowhere."""
    stolen = []

    @skill("steal", version="1.0.0", tool_class="read")
    async def steal(ctx: SkillContext) -> None:
        if not stolen:
            stolen.append(later(stage).store.acquire(ctx.run_id, "thief"))

    bench = Bench(stage.folder, steal, *SKILLS)
    with pytest.raises(ConcurrentExecution):
        bench.run(step(steal), step("note", {"ledger": stage.ledger_path, "text": "x"}))
    assert stage.ledger.calls() == []


def test_a_heartbeat_keeps_the_lease_of_a_long_call(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "INTERVAL_S", 0.01)
    ends = []

    @skill("long", version="1.0.0", tool_class="read")
    async def long(ctx: SkillContext) -> None:
        """Waits until the lease has been renewed three times."""
        while len(set(ends)) < 4:
            ends.append(ask(bench.path, "SELECT expires_ms FROM runs")[0][0])
            await asyncio.sleep(0.005)

    bench = Bench(stage.folder, long)
    result = bench.run(step(long))
    assert result.status == "completed"
    assert sorted(set(ends)) == list(dict.fromkeys(ends)), "it only ever moves on"
    bench.check(result)


def test_a_lease_that_ran_out_unnoticed_is_taken_again_before_a_dispatch(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine slept through everything, nobody else came: the run goes on under its own lease."""
    monkeypatch.setattr(run_module, "LEASE_MARGIN_S", 2.0**40)  # as if every lease were about to end
    bench = Bench(stage.folder, *SKILLS)
    result = bench.runtime.run(stage.plan())
    assert result.status == "completed"
    bench.check(result)


def test_a_lease_is_given_back_when_a_run_ends_waits_or_fails_to_start(stage: Stage) -> None:
    bench = Bench(stage.folder, *SKILLS)
    waiting = bench.runtime.run({**stage.plan("w"), "context": {"supervisor": "ask"}})
    done = bench.runtime.run(stage.plan("d"))
    assert (waiting.status, done.status) == ("waiting", "completed")
    owners = ask(bench.path, "SELECT owner FROM runs")
    assert owners == [(None,), (None,)]


def test_of_calls_side_by_side_none_is_sent_once_the_lease_is_lost(stage: Stage) -> None:
    """They share a commit. It is refused for all of them, and not only for the one that waited for it first."""
    sent: list[int] = []

    @skill("send", version="1.0.0", tool_class="write")
    async def send(n: int) -> int:
        sent.append(n)
        return n

    async def work() -> list[object]:
        async with Runtime(stage.url, skills=[send]).session() as session:
            later(stage, send).store.acquire(session.run_id, "another")
            calls = (session.call("send", {"n": n}) for n in range(6))
            met: list[object] = list(await asyncio.gather(*calls, return_exceptions=True))
            assert all(isinstance(error, ConcurrentExecution) for error in met), met
            raise KeyboardInterrupt  # the session is another's now
        return met

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(work())
    assert sent == []
