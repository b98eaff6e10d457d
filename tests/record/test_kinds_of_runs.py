"""No false alarm: whatever a run went through, its evidence verifies and its derived tables agree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact.errors import WaitingForPerson
from reenact.record.export import export_run
from reenact.replay.runtime import Runtime
from reenact.runtime.people.decisions import cancel, resolve, vote
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill
from reenact.skills.registry import Registry
from reenact.store.checks.verification import verify_run
from reenact.verify.verifier import verify_bundle
from tests.engines.places import store_at
from tests.store.checks.store_file import PLAN, kill_plan, talk


@skill("send", version="1.0.0", tool_class="write", in_doubt="hold", side_effects=["mail"])
async def send(ctx: SkillContext, text: str, number: int = 0) -> dict[str, str]:
    """Sends something, once."""
    ctx.side_effect("mail", "somebody")
    await ctx.clock.sleep(0.001 * (number % 3))
    return {"sent": text}


Story = Callable[[Runtime], str]


def plan(*steps: dict[str, object], **context: object) -> dict[str, object]:
    numbered = [{"step_id": f"s{number}", **step} for number, step in enumerate(steps)]
    return {"plan_id": "p", "agent_id": "a", "steps": numbered, "context": context}


SEND: dict[str, object] = {"skill_id": "send", "parameters": {"text": "hello " * 60}}


def a_key_that_is_served(runtime: Runtime) -> str:
    pinned = runtime.pinned(plan({**SEND, "idempotency_key": "k"}))
    runtime.run(pinned)
    return runtime.run(pinned).run_id


def a_key_of_a_failed_call(runtime: Runtime) -> str:
    step = {
        "skill_id": "talk",
        "parameters": {"text": "no", "failures": 9},
        "idempotency_key": "k",
        "on_error": "continue",
    }
    pinned = runtime.pinned(plan(step, SEND))
    runtime.run(pinned)
    return runtime.run(pinned).run_id


def an_approved_call(runtime: Runtime) -> str:
    run_id = runtime.run(plan(SEND, supervisor="ask")).run_id
    asyncio.run(vote(runtime, run_id, None, approve=True, reason="looks fine", who="ann"))
    assert runtime.resume(run_id).status == "completed"
    return run_id


def a_denied_call(runtime: Runtime) -> str:
    run_id = runtime.run(plan(SEND, supervisor="ask")).run_id
    asyncio.run(vote(runtime, run_id, None, approve=False, reason="no", who="ann"))
    assert runtime.resume(run_id).status == "failed"
    return run_id


def a_cancelled_run(runtime: Runtime) -> str:
    run_id = runtime.run(plan(SEND, supervisor="ask")).run_id
    assert asyncio.run(cancel(runtime, run_id, reason="not needed", who="ann"))
    return run_id


def duplicates_in_a_plan(runtime: Runtime) -> str:
    step = {"skill_id": "talk", "parameters": {"text": "again"}}
    return runtime.run(plan(step, step, dedupe=True)).run_id


def a_session_with_calls_side_by_side(runtime: Runtime) -> str:
    async def loop() -> str:
        async with runtime.session(agent_id="a") as session:
            await asyncio.gather(*(session.call("send", {"text": "x" * 300, "number": n}) for n in range(12)))
            await session.turn()
            await session.call("talk", {"text": "good bye", "failures": 1})
            session.finish(confidence=0.5)
        return session.run_id

    return asyncio.run(loop())


def a_session_that_waited(runtime: Runtime) -> str:
    run_ids: list[str] = []

    async def ask() -> None:
        with pytest.raises(WaitingForPerson):
            async with runtime.session(agent_id="a", context={"supervisor": "ask"}) as session:
                run_ids.append(session.run_id)
                await session.call("send", {"text": "may I?"})

    asyncio.run(ask())
    return run_ids[0]


ENDED: list[Story] = [
    a_key_that_is_served,
    a_key_of_a_failed_call,
    an_approved_call,
    a_denied_call,
    a_cancelled_run,
    duplicates_in_a_plan,
    a_session_with_calls_side_by_side,
]


@pytest.mark.parametrize("story", ENDED, ids=lambda story: story.__name__)
def test_every_run_that_ended_verifies_in_its_store_and_as_a_folder(story: Story, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    runtime = Runtime(store_at(path), skills=Registry([talk, send]))
    run_id = story(runtime)
    verified = verify_run(store_at(path), run_id)
    assert verified.report.first_break is None
    assert verified.differences == ()
    assert verified.exit_code == 0
    for row in runtime.store.runs():
        assert verify_run(store_at(path), row.run_id).exit_code == 0
    export_run(store_at(path), run_id, tmp_path / "bundle")
    assert verify_bundle(tmp_path / "bundle").exit_code == 0
    runtime.close()


def test_a_session_that_waits_is_open(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    runtime = Runtime(store_at(path), skills=Registry([talk, send]))
    verified = verify_run(store_at(path), a_session_that_waited(runtime))
    assert (verified.exit_code, verified.report.first_break, verified.differences) == (4, None, ())
    runtime.close()


@pytest.mark.parametrize("point", ["after_commit", "after_dispatch:2", "after_attempt_record", "before_commit:4"])
def test_a_killed_run_verifies_before_and_after_it_is_recovered(point: str, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run_id = kill_plan(path, point)
    verified = verify_run(store_at(path), run_id)
    assert (verified.exit_code, verified.report.first_break, verified.differences) == (4, None, ())
    runtime = Runtime(store_at(path), skills=Registry([talk, send]))
    assert runtime.resume(run_id).status == "completed"
    verified = verify_run(store_at(path), run_id)
    assert (verified.exit_code, verified.differences) == (0, ())
    runtime.close()


@pytest.mark.parametrize("word", ["succeeded", "failed", "redispatch"])
def test_a_call_that_a_person_resolved_verifies(word: str, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    held = plan(SEND, {"skill_id": "talk", "parameters": {"text": "after"}})
    run_id = kill_plan(path, "after_dispatch", plan=held, skills=Registry([talk, send]))
    runtime = Runtime(store_at(path), skills=Registry([talk, send]))
    assert runtime.resume(run_id).status == "held"
    output = {"sent": "it was"} if word == "succeeded" else None
    asyncio.run(resolve(runtime, run_id, "s0", word, reason="looked", who="ann", output=output))  # type: ignore[arg-type]
    runtime.resume(run_id)
    verified = verify_run(store_at(path), run_id)
    assert (verified.exit_code, verified.report.first_break, verified.differences) == (0, None, ())
    runtime.close()


def test_a_run_of_the_usual_plan_leaves_nothing_to_note(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    runtime = Runtime(store_at(path), skills=Registry([talk, send]))
    verified = verify_run(store_at(path), runtime.run(PLAN).run_id)
    assert (verified.exit_code, verified.report.notes) == (0, ())
    runtime.close()
