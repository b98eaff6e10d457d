"""`recover` with fifty interrupted runs, and one that kills, hangs, or raises what nobody should raise."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.runtime.listeners import Notice
from reenact.runtime.recovery import JOBS, SENT_AGAIN, how_it_was_left
from tests.cli.harness import Command
from tests.crash.harness import in_child
from tests.engines.places import store_at

OTHERS = 50
PLACE_S = 1.0
"""How long one run keeps others from its place, in these tests."""
BEGUN = Path("begun")
"""Of the first process; without it, calls do what they are there for."""


def at_first(ctx: SkillContext) -> bool:
    with Path("arrived").open("a", encoding="utf-8") as book:
        book.write(f"{ctx.run_id}\n")
    return BEGUN.exists()


async def wait_to_be_killed() -> None:
    await asyncio.sleep(60)


@skill("fine", version="1.0.0", tool_class="write", honours_key=True)
async def fine(ctx: SkillContext) -> str:
    """A call that has nothing wrong with it."""
    if at_first(ctx):
        await wait_to_be_killed()
    return "done"


@skill("kills", version="1.0.0", tool_class="write", honours_key=True)
async def kills(ctx: SkillContext) -> str:
    if at_first(ctx):
        await wait_to_be_killed()
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@skill("blocks_its_loop", version="1.0.0", tool_class="read")
async def blocks_its_loop(ctx: SkillContext) -> str:
    """No time limit reaches it: it never waits for anything."""
    if at_first(ctx):
        await wait_to_be_killed()
    time.sleep(60)  # noqa: ASYNC251  # as nobody should
    return "late"


@skill("sleeps", version="1.0.0", tool_class="read", timeout_ms=8_000, retry={"max_retries": 0})
async def sleeps(ctx: SkillContext) -> str:
    """Until its own time limit."""
    if at_first(ctx):
        await wait_to_be_killed()
    await asyncio.sleep(60)
    return "late"


@skill("interrupts", version="1.0.0", tool_class="read")
async def interrupts(ctx: SkillContext) -> str:
    if at_first(ctx):
        await wait_to_be_killed()
    raise KeyboardInterrupt


@skill("exits_in_a_task", version="1.0.0", tool_class="read")
async def exits_in_a_task(ctx: SkillContext) -> str:
    """What it starts beside itself ends the loop, not the call."""
    if at_first(ctx):
        await wait_to_be_killed()
    asyncio.get_running_loop().call_soon(sys.exit)
    await asyncio.sleep(60)
    return "late"


class Vicious(Exception):
    """Whoever asks it anything is sorry."""

    def __str__(self) -> str:
        raise MemoryError

    __repr__ = __str__

    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise RecursionError

    @property
    def __notes__(self) -> list[str]:
        raise SystemExit


@skill("is_vicious", version="1.0.0", tool_class="read", retry={"max_retries": 0})
async def is_vicious(ctx: SkillContext) -> str:
    if at_first(ctx):
        await wait_to_be_killed()
    raise Vicious


SKILLS = (fine, kills, blocks_its_loop, sleeps, interrupts, exits_in_a_task, is_vicious)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def runtime(*listeners: Callable[[Notice], None]) -> Runtime:
    return Runtime(store_at("store.db"), skills=SKILLS, listeners=listeners)


def plan(skill_id: str) -> dict[str, object]:
    return {"plan_id": skill_id, "agent_id": "a", "steps": [{"step_id": "s", "skill_id": skill_id}]}


def interrupted(odd: str, others: int = OTHERS) -> None:
    """A process that drives the odd run and all others dies in the midst of their calls; the odd one is the oldest."""
    BEGUN.touch()
    arrived = Path("arrived")
    arrived.touch()
    child = os.fork()
    if child == 0:
        try:
            opened = runtime()

            async def all_of_them() -> None:
                await asyncio.gather(*(opened.run_async(plan(name)) for name in [odd, *["fine"] * others]))

            asyncio.run(all_of_them())
        finally:
            os._exit(1)
    until = time.monotonic() + 60
    while len(arrived.read_text().split()) < others + 1 and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(arrived.read_text().split()) == others + 1
    BEGUN.unlink()


def statuses() -> dict[str, str]:
    """By plan; `mixed` where runs of one plan have come to different ends."""
    found: dict[str, set[str]] = {}
    for row in runtime().store.runs():
        found.setdefault(row.plan_id, set()).add(row.status)
    return {name: next(iter(states)) if len(states) == 1 else "mixed" for name, states in found.items()}


def recover(timeout_s: float = PLACE_S) -> list[tuple[str, str | None]]:
    """(status, the code of its error) of the odd run, after all others were completed; in this process."""
    results = runtime().recover(timeout_s=timeout_s)
    assert [result.status for result in results[1:]] == ["completed"] * OTHERS
    return [(result.status, None if result.error is None else result.error.code) for result in results[:1]]


def test_a_run_that_kills_takes_nobody_with_it_for_good_and_is_held_in_the_end() -> None:
    interrupted("kills")
    assert in_child(lambda: runtime().recover()) == signal.SIGKILL
    assert in_child(lambda: runtime().recover()) == signal.SIGKILL
    completed = [row for row in runtime().store.runs() if row.status == "completed"]
    assert len(completed) > OTHERS - JOBS, "the second one came first to all that had not died beside it"
    assert in_child(lambda: runtime().recover()) == 0
    assert statuses() == {"fine": "completed", "kills": "held"}


def test_those_who_died_with_it_are_taken_up_one_at_a_time() -> None:
    interrupted("kills", others=3)
    assert in_child(lambda: runtime().recover()) == signal.SIGKILL
    engine = runtime()
    died = {row.run_id for row in engine.store.runs() if how_it_was_left(engine, row)[0] == SENT_AGAIN}
    assert died, "others may not have come so far when it killed them"
    at_work: set[str] = set()
    most = 0

    def listen(notice: Notice) -> None:
        nonlocal most
        if notice.kind == "recovered" and notice.run_id in died:
            at_work.add(notice.run_id)
            most = max(most, len(at_work))
        elif notice.kind in ("run_ended", "run_parked"):
            at_work.discard(notice.run_id)

    def look() -> None:
        Runtime(store_at("store.db"), skills=SKILLS, listeners=[listen], max_redispatches=2).recover()
        assert most == 1

    assert in_child(look) == 0
    assert "held" in statuses().values()


@pytest.mark.parametrize("odd", ["blocks_its_loop", "sleeps"])
def test_a_run_that_hangs_delays_fifty_others_by_no_more_than_its_time(odd: str) -> None:
    interrupted(odd)
    ended: list[str | None] = []

    def listen(notice: Notice) -> None:
        if notice.kind == "run_ended":
            ended.append(notice.status)

    def look() -> None:
        (first, *others) = runtime(listen).recover(timeout_s=PLACE_S)
        assert [result.status for result in others] == ["completed"] * OTHERS
        waits = odd == "sleeps"
        assert first.status == ("failed" if waits else "running")
        assert (first.error is None) if waits else (first.error is not None)
        if first.error is not None:
            assert (first.error.code, first.error.exit_code) == ("STATE_RECOVERY_UNFINISHED", 4)
        assert ended == ["completed"] * OTHERS + ["failed"] * waits, "nobody has waited for it"

    assert in_child(look) == 0


def test_what_an_interrupted_skill_raises_is_its_runs_result() -> None:
    interrupted("interrupts")
    assert in_child(lambda: check(recover(), {("running", "STATE_RECOVERY_FAILED"), ("failed", None)})) == 0


def test_a_loop_that_ends_is_that_runs_result() -> None:
    interrupted("exits_in_a_task")
    assert in_child(lambda: check(recover(), {("running", "STATE_RECOVERY_FAILED")})) == 0
    (row,) = [row for row in runtime().store.runs() if row.plan_id == "exits_in_a_task"]
    left = runtime().store.open_run(row.run_id)
    assert left is not None
    assert left.owner is None, "its lease was given back"


def test_an_exception_that_raises_when_it_is_asked_is_an_outcome() -> None:
    interrupted("is_vicious")
    assert in_child(lambda: check(recover(), {("failed", None)})) == 0
    (result,) = [runtime().resume(row.run_id) for row in runtime().store.runs() if row.plan_id == "is_vicious"]
    assert result.get_step("s").final_code == "ERR_INTERNAL"


def check(found: list[tuple[str, str | None]], wanted: set[tuple[str, str | None]]) -> None:
    assert set(found) <= wanted, found


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE commits SET body = 5 WHERE id = (SELECT max(id) FROM commits WHERE id >> 24 = {no})",
        "UPDATE commits SET body = 'text', digest = 'text' WHERE id >> 24 = {no}",
        "UPDATE runs SET dedupe_key = 'text', token = 'many' WHERE run_no = {no}",
        "UPDATE runs SET owner = 7, expires_ms = 'soon' WHERE run_no = {no}",
        "UPDATE payloads SET body = 5 WHERE id >> 40 = {no}",
        "DELETE FROM commits WHERE id >> 24 = {no}",
    ],
)
def test_a_damaged_run_is_one_result_of_the_command_and_keeps_nobody(damage: str, tmp_path: Path) -> None:
    interrupted("fine", others=4)
    with sqlite3.connect("store.db") as db:
        (number,) = db.execute("SELECT min(run_no) FROM runs").fetchone()
        for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {trigger}")
        db.execute(damage.format(no=number))
    db.close()
    done = Command(tmp_path)("recover", "--store", store_at("store.db"), "--skills", __file__, "--json")
    found: list[dict[str, Any]] = json.loads(done.out)
    assert [run["status"] for run in found[1:]] == ["completed"] * 4, done.err
    if found[0]["status"] != "completed":
        assert found[0]["error_code"], found[0]
        assert done.code in (1, 3, 4)
    assert "Traceback" not in done.err


def test_a_session_without_an_open_call_and_a_run_that_waits_are_not_opened_again() -> None:
    opened = runtime()
    waiting = opened.run({**plan("fine"), "context": {"supervisor": "ask"}})
    assert waiting.status == "waiting"

    def leaves_a_session() -> None:
        with runtime().session() as session:
            session.call("fine", {})
            os._exit(0)

    assert in_child(leaves_a_session) == 0
    opened.recover()
    before = [opened.store.open_run(row.run_id) for row in opened.store.runs()]
    results = opened.recover()
    assert [(result.status, result.error) for result in results] == [("waiting", None), ("pending", None)]
    assert "a person was asked about step s" in str(results[0].reason)
    assert "the session's calls are settled" in str(results[1].reason)
    assert [opened.store.open_run(row.run_id) for row in opened.store.runs()] == before, "nobody has taken them up"


def test_one_at_a_time_and_side_by_side_come_to_the_same() -> None:
    interrupted("is_vicious", others=6)
    one = {result.run_id: (result.status, [step.final_code for step in result]) for result in copied("one", jobs=1)}
    many = {result.run_id: (result.status, [step.final_code for step in result]) for result in copied("many", jobs=8)}
    assert one == many
    assert len(one) == 7


def copied(name: str, jobs: int) -> list[Any]:
    folder = Path(name)
    folder.mkdir()
    with sqlite3.connect("store.db") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    for file in Path().glob("store.db*"):
        (folder / file.name).write_bytes(file.read_bytes())
        (folder / file.name).chmod(0o600)
    return Runtime(store_at(folder / "store.db"), skills=SKILLS).recover(jobs=jobs)
