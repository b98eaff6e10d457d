"""What people and the outside decided is served: votes, resolutions, cancelling, spending; and sessions replay too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, SkillContext, skill
from reenact import Runtime as ReplayingRuntime
from reenact.replay import Recording, load_recording
from reenact.replay.runtime import Runtime
from reenact.runtime.people import decisions as people
from reenact.values.clock import FixedClock
from tests.engines.places import opened, store_at
from tests.replay.recording import Crash, armed, mocked
from tests.replay.skills import SKILLS

GATES: dict[str, asyncio.Event] = {}


@skill("slow", version="1.0.0", tool_class="read", cost_estimate_cents=4, idempotent=True, reads=["shelf"])
async def slow(ctx: SkillContext, name: str) -> str:
    """Ends when the test says so."""
    del ctx
    if name in GATES:
        await GATES[name].wait()
    return name


@skill("put", version="1.0.0", tool_class="write", writes=["shelf"])
async def put(name: str) -> str:
    return name


@skill("held", version="1.0.0", tool_class="write", in_doubt="hold", side_effects=["payment"], cost_estimate_cents=1)
async def held(ctx: SkillContext, script: list[str]) -> str:
    ctx.side_effect("payment", "bank.example")
    if ctx.attempt < len(script) and script[ctx.attempt] != "ok":
        ctx.http_status(int(script[ctx.attempt]))
    return "paid"


def new_runtime() -> Runtime:
    clock = FixedClock()
    return Runtime(opened(":memory:", clock=clock), skills=Registry([*SKILLS, slow, put, held]), clock=clock)


def plan(*steps: dict[str, Any], **context: Any) -> dict[str, Any]:
    return {"plan_id": "people", "agent_id": "agent", "steps": list(steps), "context": context}


def matches(recording: Recording) -> None:
    """With the code of the skills and without it."""
    for skills in (Registry([*SKILLS, slow, put, held]), Registry()):
        result = mocked(recording, skills)
        assert result.verdict == "matched", result.divergence
        assert False not in result.behavior_match.values()


PAY = {"step_id": "pay", "skill_id": "writer", "skill_version": "2.0.0", "parameters": {"script": ["503"], "value": 1}}
READ = {"step_id": "read", "skill_id": "reader", "skill_version": "1.0.0", "parameters": {"script": ["503", "ok"]}}


@pytest.mark.parametrize("approve", [True, False])
def test_a_persons_vote_is_served(approve: bool) -> None:
    runtime = new_runtime()
    run_id = runtime.run(plan(READ, PAY, supervisor="ask", on_error="continue")).run_id
    assert runtime.store.find_run(run_id).status == "waiting"
    asyncio.run(people.vote(runtime, run_id, "pay", approve=approve, reason="seen"))
    runtime.resume(run_id)

    recording = load_recording(runtime.store, run_id)
    assert recording.outcome("pay").code == ("ERR_HTTP_503" if approve else "ERR_POLICY_VIOLATION")
    matches(recording)


def test_a_run_that_was_cancelled_while_it_waited_replays_to_where_it_was() -> None:
    runtime = new_runtime()
    run_id = runtime.run(plan(READ, PAY, {**READ, "step_id": "after"}, supervisor="ask")).run_id
    asyncio.run(people.cancel(runtime, run_id, reason="enough"))

    recording = load_recording(runtime.store, run_id)
    assert recording.status == "cancelled"
    assert list(recording.steps) == ["read", "pay"]
    matches(recording)
    assert mocked(recording).status == "cancelled"


@pytest.mark.parametrize("resolution", ["succeeded", "failed", "redispatch"])
def test_what_a_person_said_about_a_call_in_doubt_is_served(resolution: Any) -> None:
    runtime = new_runtime()
    doubtful = {"step_id": "pay", "skill_id": "held", "parameters": {"script": ["429", "ok"]}}
    tell = {"step_id": "tell", "skill_id": "plain", "parameters": {"script": [], "value": "{{pay}}"}}
    with armed("after_dispatch", 2), pytest.raises(Crash):
        runtime.run(plan(doubtful, tell, on_error="continue"))
    runtime.clock.advance(60)  # type: ignore[attr-defined]
    (row,) = runtime.store.runs()
    assert runtime.resume(row.run_id).status == "held"
    output = "paid, I saw it" if resolution == "succeeded" else None
    asyncio.run(people.resolve(runtime, row.run_id, "pay", resolution, reason="looked", output=output))
    runtime.resume(row.run_id)

    recording = load_recording(runtime.store, row.run_id)
    assert recording.outcome("pay").ok is (resolution != "failed")
    matches(recording)


def test_what_was_spent_today_and_on_a_model_is_served() -> None:
    runtime = new_runtime()
    ask = {
        "step_id": "ask", "skill_id": "model",
        "parameters": {"script": ["ok"], "prompt": "x" * 300, "model": "claude-opus-4-20250514", "max_tokens": 1000},
    }  # fmt: skip
    limits = {"per_day_cents": 12, "per_model_cents": {"claude-opus-4-20250514": 9}}
    codes = []
    for _ in range(30):
        run_id = runtime.run(plan(ask, budget=limits)).run_id
        recording = load_recording(runtime.store, run_id)
        codes.append(recording.outcome("ask").code)
        matches(recording)
        if codes[-1] != "OK":
            break

    assert codes[0] == "OK"
    assert codes[-1] == "ERR_BUDGET_EXCEEDED"


# -- sessions ---------------------------------------------------------------------------------------------------------


async def conversation(runtime: Runtime) -> str:
    async with runtime.session(goal="talk", budget_cents=40) as session:
        await session.call("reader", {"script": ["503", "ok"], "value": 1}, version="1.0.0")
        await session.call("reader", {"script": ["503", "ok"], "value": 1}, version="1.0.0")
        await session.turn()
        await session.call("reader", {"script": ["503", "ok"], "value": 1}, version="1.0.0")
        await session.call("keyed", {"script": ["ok"], "value": "{{c1.value}}"}, idempotency_key="k")
        await session.call("keyed", {"script": ["ok"], "value": "{{c1.value}}"}, idempotency_key="k")
        await session.call("nobody", {})
        return session.run_id


def test_a_session_replays_turn_by_turn() -> None:
    runtime = new_runtime()
    recording = load_recording(runtime.store, asyncio.run(conversation(runtime)))

    assert [recording.outcome(step_id).code for step_id in recording.steps] == [
        "OK", "DENIED_DUPLICATE", "OK", "OK", "OK", "ERR_SKILL_NOT_FOUND",
    ]  # fmt: skip
    matches(recording)


def test_a_session_is_replayed_live_with_its_turns_and_its_words_taken_literally() -> None:
    from reenact.replay.modes.full import full_replay

    runtime = new_runtime()
    recording = load_recording(runtime.store, asyncio.run(conversation(runtime)))
    live = asyncio.run(full_replay(runtime, recording, execute=["c4"]))

    assert live.verdict == "matched", live.divergence
    assert live.get_step("c4").outcome.output == "mail {{c1.value}}"


async def overlapping(runtime: Runtime, *, budget_cents: int) -> str:
    """The second call begins while the first one holds its reservation, and ends before it."""
    GATES.update(first=asyncio.Event(), second=asyncio.Event())
    try:
        async with runtime.session(goal="at once", budget_cents=budget_cents) as session:
            first = asyncio.create_task(session.call("slow", {"name": "first"}))
            await asyncio.sleep(0.01)
            second = asyncio.create_task(session.call("slow", {"name": "second"}))
            again = asyncio.create_task(session.call("slow", {"name": "first"}))
            await asyncio.sleep(0.01)
            GATES["second"].set()
            await second
            GATES["first"].set()
            await first
            await again
            await session.call("put", {"name": "x"})
            await session.call("slow", {"name": "second"})
            return session.run_id
    finally:
        GATES.clear()


@pytest.mark.parametrize(("budget_cents", "codes"), [
    (40, ["OK", "OK", "DENIED_DUPLICATE", "OK", "OK"]),
    (7, ["OK", "ERR_BUDGET_EXCEEDED", "DENIED_DUPLICATE", "OK", "ERR_BUDGET_EXCEEDED"]),
])  # fmt: skip
def test_calls_that_overlapped_are_replayed_in_the_order_of_the_journal(budget_cents: int, codes: list[str]) -> None:
    runtime = new_runtime()
    recording = load_recording(runtime.store, asyncio.run(overlapping(runtime, budget_cents=budget_cents)))

    assert [recording.outcome(step_id).code for step_id in recording.steps] == codes
    matches(recording)


def test_a_session_that_was_interrupted_and_repaired_replays() -> None:
    runtime = new_runtime()

    async def interrupted() -> str:
        session_id = ""
        try:
            async with runtime.session(goal="talk") as session:
                session_id = session.run_id
                await session.call("writer", {"script": ["ok"], "value": 1}, version="2.0.0")
        except Crash:
            runtime.clock.advance(60)  # type: ignore[attr-defined]
        async with runtime.session(resume=session_id) as session:
            await session.call("plain", {"script": [], "value": 2})
        return session_id

    with armed("after_dispatch", 1):
        run_id = asyncio.run(interrupted())
    recording = load_recording(runtime.store, run_id)
    assert [recording.outcome(step_id).code for step_id in recording.steps] == ["ERR_IN_DOUBT", "OK"]
    matches(recording)


@pytest.mark.parametrize("knows_skills", [True, False])
def test_a_session_that_somebody_cancels_replays_with_its_retries_and_prices(knows_skills: bool) -> None:
    """Whoever cancels it may know none of its skills, as the command line often does not."""
    runtime = new_runtime()

    async def stopped() -> str:
        session = await runtime.session(goal="talk").__aenter__()
        await asyncio.gather(
            session.call("keyed", {"script": ["503"], "value": 1}),
            session.call("model", {"script": ["503", "ok"], "prompt": "x" * 300}),
        )
        runtime.clock.advance(60)  # type: ignore[attr-defined]
        return session.run_id

    run_id = asyncio.run(stopped())
    skills = Registry([*SKILLS, slow, put, held]) if knows_skills else Registry()
    asyncio.run(people.cancel(Runtime(runtime.store, skills=skills, clock=runtime.clock), run_id, reason="enough"))
    recording = load_recording(runtime.store, run_id)
    assert recording.status == "cancelled"
    assert [recording.outcome(step_id).cost_cents for step_id in recording.steps] != [0, 0]
    matches(recording)


def test_five_calls_at_once_with_one_key_replay_as_they_were(tmp_path: Path) -> None:
    @skill("pay", version="1.0.0", tool_class="write")
    async def pay(cents: int) -> int:
        await asyncio.sleep(0.01)
        return cents

    runtime = ReplayingRuntime(store_at(tmp_path / "keys.db"), skills=Registry([pay]))

    async def work() -> str:
        async with runtime.session() as session:
            calls = [session.call("pay", {"cents": 1}, idempotency_key="order-1") for _ in range(5)]
            assert {outcome.code for outcome in await asyncio.gather(*calls)} == {"OK"}
            return session.run_id

    result = runtime.replay(asyncio.run(work()))
    assert result.verdict == "matched", result.divergence
