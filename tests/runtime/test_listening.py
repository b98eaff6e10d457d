"""What listeners hear, and that nothing they do reaches a skill."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.runtime.listeners import Notice
from tests import ctrl_c
from tests.runtime.running import Bench, step


@skill("talks", version="1.0.0", tool_class="read")
def talks(ctx: SkillContext) -> str:
    ctx.progress("half way")
    return "done"


@pytest.mark.parametrize("failure", [RuntimeError("no screen"), BrokenPipeError()])
def test_a_listener_that_fails_on_progress_is_not_the_skill_s_trouble(tmp_path: Path, failure: Exception) -> None:
    heard: list[Notice] = []

    def listen(notice: Notice) -> None:
        if notice.kind == "progress":
            heard.append(notice)
            raise failure

    bench = Bench(tmp_path, talks, listeners=[listen])
    result = bench.run(step(talks))
    assert result.status == "completed"
    assert [(notice.run_id, notice.step_id, notice.message) for notice in heard] == [(result.run_id, "s0", "half way")]


class NoClass(Exception):
    """It raises when it is asked what it is."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "failure", [lambda: SystemExit(3), GeneratorExit, asyncio.CancelledError, MemoryError, NoClass]
)
def test_nothing_that_a_listener_raises_ends_or_stalls_a_run(
    tmp_path: Path, failure: Callable[[], BaseException]
) -> None:
    def listen(_: Notice) -> None:
        raise failure()

    bench = Bench(tmp_path, talks, listeners=[listen])
    assert bench.run(step(talks)).status == "completed"
    assert in_time(lambda: in_a_session(bench.runtime)) == ["done", "done"]
    assert [row.status for row in bench.runtime.store.runs()] == ["completed", "completed"]


def test_an_interrupt_that_a_listener_raises_is_heard_as_ctrl_c_between_two_steps(tmp_path: Path) -> None:
    def listen(notice: Notice) -> None:
        if notice.kind == "step_ended" and notice.step_id == "s0":
            raise KeyboardInterrupt

    bench = Bench(tmp_path, talks, listeners=[listen])
    with ctrl_c.heard(), pytest.raises(KeyboardInterrupt):
        bench.run(step(talks), step(talks), step(talks))
    bench.runtime.listeners = ()
    (result,) = bench.runtime.recover()
    assert (result.status, result.steps) == ("completed", ["s0", "s1", "s2"])


def test_an_interrupt_that_a_listener_raises_in_another_thread_is_its_own_trouble(tmp_path: Path) -> None:
    def listen(_: Notice) -> None:
        raise KeyboardInterrupt

    runtime = Bench(tmp_path, talks, listeners=[listen]).runtime
    assert in_time(lambda: in_a_session(runtime)) == ["done", "done"], "the loop of a session has a thread of its own"


def in_a_session(runtime: Runtime) -> list[object]:
    with runtime.session() as session:
        return [session.call("talks", {}, step_id=name).output for name in ("one", "two")]


def in_time(work: object) -> object:
    """What `work` gives, in a thread; a failure where it does not come to its end."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)  # type: ignore[operator]
    thread.start()
    thread.join(30)
    assert found, "it hangs"
    return found[0]
