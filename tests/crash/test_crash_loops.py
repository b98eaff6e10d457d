"""A call that kills its process is sent three times in all, and then held; nobody else waits for it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.errors import SkillDeclarationError, UsageError, WaitingForPerson
from reenact.runtime.effects.coroutines import run_sync
from reenact.runtime.people import decisions
from reenact.store.checks.verification import verify_run
from tests.crash.harness import in_child
from tests.engines.places import store_at

DEADLY = Path("deadly")
"""While this file is there, in the current folder, a call ends its process."""


def arrive(ctx: SkillContext) -> None:
    with Path("arrived").open("a", encoding="utf-8") as book:
        book.write(f"{ctx.idempotency_key}\n")


def arrivals() -> list[str]:
    return Path("arrived").read_text(encoding="utf-8").split() if Path("arrived").exists() else []


def die() -> None:
    if DEADLY.exists():
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(10)


@skill("crash", version="1.0.0", tool_class="write", honours_key=True)
def crash(ctx: SkillContext) -> str:
    """As a segfault or the end of memory would."""
    arrive(ctx)
    die()
    return "alive"


@skill("crash_async", version="1.0.0", tool_class="read")
async def crash_async(ctx: SkillContext) -> str:
    arrive(ctx)
    die()
    return "alive"


@skill("crash_once", version="1.0.0", tool_class="write", honours_key=True, max_redispatches=1)
def crash_once(ctx: SkillContext) -> str:
    """Its author wants to be asked after the first death."""
    arrive(ctx)
    die()
    return "alive"


def not_there(_ctx: SkillContext) -> dict[str, object]:
    return {"done": False}


@skill("crash_read_back", version="1.0.0", tool_class="write", in_doubt="reconcile", reconcile=not_there)
def crash_read_back(ctx: SkillContext) -> str:
    """Its read-back says each time that nothing happened."""
    arrive(ctx)
    die()
    return "alive"


@skill("kills_its_host", version="1.0.0", tool_class="write", honours_key=True, isolation="process")
def kills_its_host(ctx: SkillContext) -> str:
    """In a child of its own, and takes the host with it."""
    arrive(ctx)
    if DEADLY.exists():
        os.kill(int(Path("host").read_text(encoding="utf-8")), signal.SIGKILL)
        time.sleep(10)
    return "alive"


@skill("dies_alone", version="1.0.0", tool_class="write", honours_key=True, isolation="process")
def dies_alone(ctx: SkillContext) -> str:
    """In a child of its own: its host lives."""
    arrive(ctx)
    die()
    return "alive"


SKILLS = (crash, crash_async, crash_once, crash_read_back, kills_its_host, dies_alone)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    DEADLY.touch()


def runtime(**given: int) -> Runtime:
    return Runtime(store_at("store.db"), skills=SKILLS, **given)


def plan(skill_id: str, steps: int = 1) -> dict[str, object]:
    return {
        "plan_id": "p",
        "agent_id": "a",
        "steps": [{"step_id": f"s{number}", "skill_id": skill_id} for number in range(steps)],
    }


def in_host(work: object) -> int:
    def whole() -> None:
        Path("host").write_text(str(os.getpid()), encoding="utf-8")
        work()  # type: ignore[operator]

    return in_child(whole)


@pytest.mark.parametrize(
    ("skill_id", "how"),
    [
        ("crash", "recover"),
        ("crash", "resume"),
        ("crash_async", "recover"),
        ("crash_read_back", "recover"),
        ("kills_its_host", "recover"),
    ],
)
def test_after_three_deaths_in_one_call_it_is_held_with_the_count(skill_id: str, how: str) -> None:
    assert in_host(lambda: runtime().run(plan(skill_id))) == signal.SIGKILL

    def go_on() -> None:
        opened = runtime()
        opened.recover() if how == "recover" else opened.resume("last")

    assert [in_host(go_on) for _ in range(2)] == [signal.SIGKILL] * 2
    assert in_host(go_on) == 0, "it was sent a fourth time"
    assert len(arrivals()) == 3
    assert len(set(arrivals())) == 1, "one key"
    (held,) = runtime().recover()
    assert held.status == "held"
    assert held.reason is not None
    assert "died in it, 3 times by now" in held.reason
    assert f"reenact resolve {held.run_id} s0" in held.reason


def test_a_person_sends_it_once_more_and_is_asked_again_if_that_dies_too() -> None:
    in_child(lambda: runtime().run(plan("crash", steps=2)))
    for _ in range(3):
        in_child(lambda: runtime().recover())
    run_sync(decisions.resolve(runtime(), "last", "s0", "redispatch", reason="more memory"))
    assert in_child(lambda: runtime().recover()) == signal.SIGKILL
    assert len(arrivals()) == 4
    (held,) = runtime().recover()
    assert "died in it, 4 times by now" in str(held.reason)
    DEADLY.unlink()
    run_sync(decisions.resolve(runtime(), "last", "s0", "redispatch", reason="fixed"))
    assert runtime().resume("last").status == "completed"
    assert verify_run(store_at("store.db"), held.run_id).exit_code == 0
    assert runtime().replay("last").exit_code == 0


def test_a_person_ends_it() -> None:
    in_child(lambda: runtime().run(plan("crash")))
    for _ in range(3):
        in_child(lambda: runtime().recover())
    run_sync(decisions.resolve(runtime(), "last", "s0", "failed", reason="never again"))
    assert runtime().resume("last").status == "failed"
    assert len(arrivals()) == 3


def test_skill_and_host_say_after_how_many() -> None:
    in_child(lambda: runtime().run(plan("crash_once")))
    (held,) = runtime(max_redispatches=9).recover()
    assert "died in it, 1 times by now" in str(held.reason)
    in_child(lambda: runtime().run(plan("crash")))
    (_, other) = runtime(max_redispatches=1).recover()
    assert other.status == "held"
    with pytest.raises(UsageError, match="max_redispatches is a whole number from 1 on"):
        runtime(max_redispatches=0)
    with pytest.raises(SkillDeclarationError, match="max_redispatches"):
        skill("x", version="1.0.0", max_redispatches=0)(lambda: None)


def test_a_program_that_is_started_again_is_told_to_wait() -> None:
    def program() -> None:
        with runtime().session(id="loop") as session:
            session.call("crash", {})

    def hears() -> None:
        with pytest.raises(WaitingForPerson, match="died in it, 3 times by now"):
            program()

    assert [in_child(program) for _ in range(3)] == [signal.SIGKILL] * 3
    assert in_child(hears) == 0
    assert in_child(lambda: runtime().recover()) == 0, "nor does recover send it"
    assert len(arrivals()) == 3
    DEADLY.unlink()
    run_sync(decisions.resolve(runtime(), "last", "main:1", "redispatch", reason="fixed"))
    assert in_child(program) == 0
    assert runtime().store.find_run("last").status == "completed"
    assert len(arrivals()) == 4


def test_a_child_that_dies_alone_is_retried_as_any_failure_and_ends() -> None:
    result = runtime().run(plan("dies_alone"))
    assert result.status == "failed"
    assert arrivals(), "and this process lives"


@skill("slow", version="1.0.0", tool_class="read")
async def slow(ctx: SkillContext) -> str:
    """Until somebody takes the file away."""
    arrive(ctx)
    while DEADLY.exists():  # noqa: ASYNC110  # a file is no event
        await asyncio.sleep(0.01)
    return "done"


def test_a_caller_that_gives_up_again_and_again_has_not_died() -> None:
    asyncio.run(give_up_five_times())
    assert len(arrivals()) == 6


async def give_up_five_times() -> None:
    async with Runtime(store_at("store.db"), skills=[slow]).session() as session:
        await give_up(session.call("slow", {}))
        for _ in range(4):
            await give_up(session.settle())
        DEADLY.unlink()
        (outcome,) = await session.settle()
        assert outcome.ok


async def give_up(work: Coroutine[Any, Any, object]) -> None:
    """Once the call has arrived."""
    before, task = len(arrivals()), asyncio.ensure_future(work)
    while len(arrivals()) == before:  # noqa: ASYNC110  # likewise
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
