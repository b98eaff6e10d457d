"""Skills that do not want to end: their call ends all the same, in time, and so does the process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.runtime.effects import coroutines, live
from reenact.runtime.effects.threads import SkillThreads
from tests import ctrl_c
from tests.cli.harness import Command
from tests.engines.places import store_at
from tests.runtime.running import Bench, outcome_of, plan, step

WARNING = "went on for 0.05 s after it was cancelled, and was stopped"


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coroutines, "GRACE_S", 0.05)


def deaf(body: Callable[[], Any]) -> Any:
    """A skill around a coroutine function."""
    declare = skill("deaf", version="1.0.0", tool_class="read", timeout_ms=20, retry={"max_retries": 0})

    async def run() -> Any:
        """Hears of nothing."""
        return await body()

    return declare(run)


async def swallow() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


async def swallow_all() -> None:
    while True:
        with contextlib.suppress(BaseException):
            await asyncio.sleep(3600)


async def swallow_without_rest() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)


async def swallow_in_its_own_limit() -> None:
    async with asyncio.timeout(0.15):
        await swallow()


@skill("after", version="1.0.0", tool_class="read")
async def after() -> str:
    """Waits for longer than what came before it would have."""
    await asyncio.sleep(0.2)
    return "done"


@pytest.mark.filterwarnings("ignore:coroutine ignored:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:Exception ignored:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("body", [swallow, swallow_all, swallow_without_rest, swallow_in_its_own_limit])
def test_a_skill_that_swallows_its_cancellation_ends_at_its_limit_and_the_run_goes_on(
    body: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path, deaf(body), after)
    result = bench.run(step("deaf", on_error="continue"), step(after))
    first, second = result.outcomes
    assert (first.code, second.output) == ("ERR_TIMEOUT", "done")
    assert result.status == "completed"
    assert f"skill deaf@1.0.0 {WARNING}" in caplog.text
    bench.check(result)


def test_such_a_skill_never_runs_again(tmp_path: Path) -> None:
    told: list[str] = []

    async def body() -> None:
        try:
            await swallow()
        finally:
            told.append("closed")

    bench = Bench(tmp_path, deaf(body))
    assert outcome_of(bench.run(step("deaf"))).code == "ERR_TIMEOUT"
    assert told == ["closed"]


def test_it_may_be_tried_again_as_after_any_other_limit(tmp_path: Path) -> None:
    bench = Bench(tmp_path, deaf(swallow))
    outcome = outcome_of(bench.run(step("deaf", retry={"max_retries": 1, "backoff_base_ms": 1})))
    assert (outcome.code, outcome.observability.backend_retries) == ("ERR_TIMEOUT", 1)


def test_a_skill_may_clean_up_after_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(coroutines, "GRACE_S", 60)
    cleaned: list[bool] = []

    async def body() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            for _ in range(3):
                await asyncio.sleep(0.001)
            cleaned.append(True)

    bench = Bench(tmp_path, deaf(body))
    assert outcome_of(bench.run(step("deaf"))).code == "ERR_TIMEOUT"
    assert cleaned == [True]
    assert caplog.text == ""


def test_what_it_answers_when_it_is_cancelled_is_an_answer(tmp_path: Path) -> None:
    async def body() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "at the last moment"

    bench = Bench(tmp_path, deaf(body))
    assert outcome_of(bench.run(step("deaf"))).output == "at the last moment"


def session_on(tmp_path: Path, body: Callable[[], Any]) -> tuple[Bench, list[asyncio.Event]]:
    begun: list[asyncio.Event] = []

    async def run() -> Any:
        begun[0].set()
        return await body()

    declare = skill("deaf", version="1.0.0", tool_class="read", timeout_ms=60_000, retry={"max_retries": 0})

    async def named() -> Any:
        """Hears of nothing."""
        return await run()

    return Bench(tmp_path, declare(named), after), begun


def test_a_call_that_is_cancelled_ends_although_its_skill_does_not_want_to(tmp_path: Path) -> None:
    bench, begun = session_on(tmp_path, swallow)

    async def work() -> str:
        begun.append(asyncio.Event())
        async with bench.runtime.session(goal="give up") as s:
            call = asyncio.ensure_future(s.call("deaf"))
            await begun[0].wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert call.cancelled()
            assert (await s.call("after")).ok
            return s.run_id

    bench.check(asyncio.run(work()))


def test_a_limit_of_the_host_around_a_call_is_its_own(tmp_path: Path) -> None:
    bench, begun = session_on(tmp_path, swallow)

    async def work() -> str:
        begun.append(asyncio.Event())
        async with bench.runtime.session(goal="not for long") as s:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await s.call("deaf")
            assert (await s.call("after")).ok
            return s.run_id

    bench.check(asyncio.run(work()))


async def limit_itself() -> str:
    """As clients of servers do: a limit within, which cancels the task that it stands in."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(3600)
    await asyncio.sleep(0.1)
    return "done"


async def outlive_a_part() -> str:
    """Something that it waits for is cancelled; it is not."""
    part = asyncio.ensure_future(asyncio.sleep(3600))
    asyncio.get_running_loop().call_later(0.01, part.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await part
    await asyncio.sleep(0.1)
    return "done"


async def fail_in_a_group() -> str:
    async def fail() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("one of them")

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await asyncio.sleep(3600)
    await asyncio.sleep(0.1)
    return "done"


@pytest.mark.parametrize("body", [limit_itself, outlive_a_part, fail_in_a_group])
def test_what_a_skill_cancels_within_itself_is_its_own_affair(
    body: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It then goes on for longer than one that is cancelled from outside may."""
    bench = Bench(tmp_path, deaf(body), after)
    first, second = bench.run(step("deaf", timeout_ms=60_000), step(after)).outcomes
    assert (first.output, second.output) == ("done", "done")
    assert caplog.text == ""


def test_what_hangs_in_its_own_limit_fails_without_cancelling_its_run(tmp_path: Path) -> None:
    async def body() -> None:
        async with asyncio.timeout(0.01):
            await swallow()

    bench = Bench(tmp_path, deaf(body), after)
    result = bench.run(step("deaf", timeout_ms=60_000, on_error="continue"), step(after))
    assert [outcome.code for outcome in result.outcomes] == ["ERR_TIMEOUT", "OK"]
    bench.check(result)


def test_a_read_back_that_swallows_its_cancellation_has_not_told(tmp_path: Path) -> None:
    async def read_back(ctx: Any) -> None:
        await swallow()

    async def ask() -> object:
        source = live.LiveSource(clock=None, secrets=None)  # type: ignore[arg-type]  # neither is asked
        with pytest.raises(TimeoutError):
            await source._ask(read_back, None, {}, 0.02)  # type: ignore[arg-type]
        return "told"

    assert asyncio.run(ask()) == "told"


# -- processes -------------------------------------------------------------------------------------------------------

DEAF_SKILLS = textwrap.dedent(
    """
    import asyncio
    from reenact import skill
    from reenact.runtime.effects import coroutines

    coroutines.GRACE_S = 0.1

    async def never_mind():
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass

    @skill("deaf", version="1.0.0", tool_class="read", retry={"max_retries": 0})
    async def deaf() -> None:
        "Hears of nothing."
        print("begun", flush=True)
        await never_mind()

    KEPT = []

    @skill("forgetful", version="1.0.0", tool_class="read")
    async def forgetful() -> str:
        "Leaves something running that hears of nothing."
        KEPT.append(asyncio.create_task(never_mind()))
        await asyncio.sleep(0)
        return "done"
    """
)


@pytest.fixture
def deaf_skills(tmp_path: Path) -> Path:
    path = tmp_path / "deaf_skills.py"
    path.write_text(DEAF_SKILLS)
    return path


@pytest.mark.parametrize(
    ("first", "status", "named"),
    [("deaf", 1, "skill deaf@1.0.0 went on for 0.1 s"), ("forgetful", 0, "never_mind goes on after it was cancelled")],
)
def test_a_process_can_end_whatever_its_skills_have_left(
    deaf_skills: Path, tmp_path: Path, first: str, status: int, named: str
) -> None:
    reenact = Command(tmp_path)
    path = reenact.plan({"skill_id": first, "timeout_ms": 1000})
    process = reenact.start("run", path, "--skills", deaf_skills)
    _, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert [line for line in err.splitlines() if named in line] != [], err
    assert "Traceback" not in err
    assert "destroyed" not in err


def test_so_can_one_with_a_synchronous_session(deaf_skills: Path, tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        from deaf_skills import forgetful
        from reenact import Runtime

        with Runtime(":memory:", skills=[forgetful]).session() as session:
            assert session.call("forgetful").ok
        print("ended")
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "ended\n"
    assert "never_mind goes on after it was cancelled" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_ctrl_c_ends_a_run_whose_skill_does_not_want_to(deaf_skills: Path, tmp_path: Path) -> None:
    reenact = Command(tmp_path)
    path = reenact.plan({"skill_id": "deaf"})
    process = reenact.start("run", path, "--skills", deaf_skills)
    assert process.stderr is not None
    while process.stderr.readline() != "begun\n":  # what a skill prints is no result of the command
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted; go on with: reenact resume" in err
    (row,) = reenact("ls", "--json").json
    assert row["status"] == "running"
    assert reenact("verify", "last").code == 4


BUSY_SKILLS = textwrap.dedent(
    """
    import asyncio, sys, time
    from reenact import skill

    @skill("busy", version="1.0.0", tool_class="read")
    async def busy() -> str:
        print("begun", file=sys.stderr, flush=True)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            pass
        await asyncio.sleep(3600)
        return "not reached"
    """
)

OWN_LOOP = textwrap.dedent(
    """
    import asyncio, sys
    sys.path.insert(0, sys.argv[1])
    from reenact import Runtime
    from busy_skills import busy

    runtime = Runtime(sys.argv[2], skills=[busy])
    asyncio.run(runtime.run_async({"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "s", "skill_id": "busy"}]}))
    """
)


def interrupted_while_busy(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    while process.stderr.readline() != "begun\n":
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=60)[1]


def test_ctrl_c_in_the_midst_of_a_skills_work_is_not_taken_for_its_own(tmp_path: Path) -> None:
    (tmp_path / "busy_skills.py").write_text(BUSY_SKILLS)
    reenact = Command(tmp_path)
    process = reenact.start("run", reenact.plan({"skill_id": "busy"}), "--skills", tmp_path / "busy_skills.py")
    err = interrupted_while_busy(process)
    assert process.returncode == 130, err
    assert "interrupted; go on with: reenact resume" in err


def test_nor_is_it_in_a_loop_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "busy_skills.py").write_text(BUSY_SKILLS)
    arguments = [sys.executable, "-c", OWN_LOOP, str(tmp_path), store_at(tmp_path / "store.db")]
    with ctrl_c.heard():
        process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    with process:
        err = interrupted_while_busy(process)
    assert process.returncode != 0
    assert err.rstrip().endswith("KeyboardInterrupt")


# -- threads ---------------------------------------------------------------------------------------------------------


class Watched(SkillThreads):
    def __init__(self) -> None:
        super().__init__()
        self.futures: list[asyncio.Future[Any]] = []

    def run(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        self.futures.append(super().run(function))
        return self.futures[-1]

    async def has_spoken(self) -> None:
        """The one thread has told the loop what came of its call, and the loop has heard it: it takes the next one."""
        await asyncio.to_thread(self._until_idle)
        await super().run(lambda: None)

    def _until_idle(self) -> None:
        while not self._idle:
            time.sleep(0.001)


@pytest.mark.parametrize("fails", [False, True], ids=["answers", "fails"])
def test_what_a_thread_says_after_its_limit_goes_nowhere(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    linger, watched = threading.Event(), Watched()
    monkeypatch.setattr(live, "THREADS", watched)

    @skill("slow", version="1.0.0", tool_class="read", timeout_ms=20, retry={"max_retries": 0})
    def slow() -> str:
        """Takes its time."""
        linger.wait()
        if fails:
            raise ValueError("nobody asks any more")
        return "nobody asks any more"

    bench = Bench(tmp_path, slow)
    complaints: list[object] = []

    async def work() -> str:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        result = await bench.runtime.run_async(plan(step(slow)))
        (future,) = watched.futures
        assert future.cancelled(), "nothing that it may still say can reach the call"
        linger.set()
        await watched.has_spoken()
        assert future.cancelled()
        assert outcome_of(result).code == "ERR_TIMEOUT"
        return result.run_id

    try:
        bench.check(asyncio.run(work()))
    finally:
        linger.set()
    assert complaints == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_runtime_is_not_kept_by_what_a_thread_still_does(tmp_path: Path) -> None:
    """A thread that hangs is left behind: the run after it gets another one."""
    linger = threading.Event()

    @skill("hang", version="1.0.0", tool_class="read", timeout_ms=20, retry={"max_retries": 0})
    def hang() -> None:
        """Until it may end."""
        linger.wait()

    @skill("quick", version="1.0.0", tool_class="read")
    def quick() -> str:
        """At once."""
        return "done"

    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[hang, quick])
    try:
        result = runtime.run(plan(step(hang, on_error="continue"), step(quick)))
    finally:
        linger.set()
    assert [outcome.code for outcome in result.outcomes] == ["ERR_TIMEOUT", "OK"]
