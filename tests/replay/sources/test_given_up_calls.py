"""A call that its host gave up on is served as that, wherever it stood, and holds what it held until its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reenact import Registry, skill
from reenact.replay import Recording, load_recording
from reenact.replay.runtime import Runtime
from reenact.runtime.gates.supervisor import Proposal
from reenact.runtime.session.session import Session
from reenact.values.clock import FixedClock
from tests.engines.places import opened
from tests.replay.recording import mocked

OPEN: dict[str, asyncio.Event] = {}
"""What a call with this name waits for: the end of its skill, or the supervisor's word about it."""


async def passing(name: str) -> str:
    if name in OPEN:
        await OPEN[name].wait()
    return name


@skill("look", version="1.0.0", tool_class="read", idempotent=True, cost_estimate_cents=4)
async def look(name: str) -> str:
    return await passing(name)


@skill("ask", version="1.0.0", tool_class="read", cost_estimate_cents=4)
async def ask(name: str) -> str:
    return await passing(name)


@skill("pay", version="1.0.0", tool_class="write", cost_estimate_cents=4)
async def pay(name: str) -> str:
    return await passing(name)


SKILLS = Registry([look, ask, pay])


async def thinking(proposal: Proposal) -> bool:
    await passing(f"about {proposal.step_id}")
    return True


def recorded(work: Callable[[Session], Awaitable[None]], *, supervised: bool = False, **options: Any) -> Recording:
    clock = FixedClock()
    store = opened(":memory:", clock=clock)
    runtime = Runtime(store, skills=SKILLS, supervisor=thinking if supervised else None, clock=clock)

    async def session() -> str:
        try:
            async with runtime.session(**options) as opened:
                await work(opened)
                return opened.run_id
        finally:
            OPEN.clear()

    return load_recording(store, asyncio.run(session()))


def close(*names: str) -> None:
    OPEN.update({name: asyncio.Event() for name in names})


async def begun(session: Session, skill_id: str, name: str, **options: Any) -> asyncio.Task[Any]:
    """A call that has come as far as it comes."""
    task = asyncio.create_task(session.call(skill_id, {"name": name}, **options))
    for _ in range(50):
        await asyncio.sleep(0)
    return task


async def give_up(task: asyncio.Task[Any]) -> None:
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def replays_as(recording: Recording, *codes: str) -> None:
    assert [recording.outcome(step_id).code for step_id in recording.steps] == list(codes)
    for skills in (SKILLS, Registry()):
        result = mocked(recording, skills)
        assert result.verdict == "matched", result.divergence


def test_given_up_while_it_waited_behind_an_equal_call() -> None:
    async def work(session: Session) -> None:
        close("a")
        first = await begun(session, "look", "a")
        await give_up(await begun(session, "look", "a"))
        OPEN["a"].set()
        await first
        await session.call("look", {"name": "a"})

    replays_as(recorded(work), "OK", "ERR_CANCELLED", "DENIED_DUPLICATE")


def test_given_up_while_the_supervisor_thought_and_made_again() -> None:
    async def work(session: Session) -> None:
        close("about c1")
        await give_up(await begun(session, "look", "a"))
        await session.call("look", {"name": "a"})

    replays_as(recorded(work, supervised=True), "ERR_CANCELLED", "OK")


def test_given_up_while_it_waited_for_money_that_was_kept_for_others() -> None:
    async def work(session: Session) -> None:
        close("about c1", "about c2")
        others = [await begun(session, "ask", name) for name in "ab"]
        await give_up(await begun(session, "ask", "c"))
        OPEN["about c1"].set()
        OPEN["about c2"].set()
        await asyncio.gather(*others)

    replays_as(recorded(work, supervised=True, budget_cents=10), "OK", "OK", "ERR_CANCELLED")


def test_given_up_while_it_waited_for_a_place_among_the_external_calls() -> None:
    async def work(session: Session) -> None:
        close("about c1", "about c2")
        others = [await begun(session, "pay", name) for name in "ab"]
        await give_up(await begun(session, "pay", "c"))
        OPEN["about c1"].set()
        OPEN["about c2"].set()
        await asyncio.gather(*others)

    context = {"profile": {"max_external_calls": 2}}
    replays_as(recorded(work, supervised=True, context=context), "OK", "OK", "ERR_CANCELLED")


def test_given_up_while_it_was_made_it_keeps_its_money_to_the_end() -> None:
    async def work(session: Session) -> None:
        close("a")
        await give_up(await begun(session, "ask", "a"))
        for name in "bcd":
            await session.call("ask", {"name": name})

    replays_as(
        recorded(work, budget_cents=10), "ERR_IN_DOUBT", "OK", "ERR_BUDGET_EXCEEDED", "ERR_BUDGET_EXCEEDED"
    )  # fmt: skip


def test_given_up_while_it_was_made_it_stands_in_nobodys_way() -> None:
    async def work(session: Session) -> None:
        close("a")
        await give_up(await begun(session, "look", "a"))
        OPEN["a"].set()
        await session.call("look", {"name": "a"})
        await session.call("look", {"name": "a"})
        await session.call("ask", {"name": "b"})

    replays_as(recorded(work, budget_cents=10), "ERR_IN_DOUBT", "OK", "DENIED_DUPLICATE", "ERR_BUDGET_EXCEEDED")


def test_given_up_while_it_waited_for_its_key_it_held_no_money() -> None:
    async def work(session: Session) -> None:
        close("a")
        first = await begun(session, "pay", "a", idempotency_key="k")
        await give_up(await begun(session, "pay", "a", idempotency_key="k"))
        OPEN["a"].set()
        await first
        await session.call("ask", {"name": "b"})

    replays_as(recorded(work, budget_cents=10), "OK", "ERR_CANCELLED", "OK")


def test_a_call_that_is_answered_by_its_key_holds_no_money_while_it_waits() -> None:
    async def work(session: Session) -> None:
        close("a")
        first = await begun(session, "pay", "a", idempotency_key="k")
        second = await begun(session, "pay", "a", idempotency_key="k")
        await session.call("ask", {"name": "b"})
        OPEN["a"].set()
        await asyncio.gather(first, second)
        await session.call("ask", {"name": "b"})

    replays_as(recorded(work, budget_cents=10), "OK", "OK", "OK", "ERR_BUDGET_EXCEEDED")


def test_given_up_while_it_was_made_and_made_again_before_it_is_settled() -> None:
    async def work(session: Session) -> None:
        close("a")
        await give_up(await begun(session, "look", "a"))
        OPEN["a"].set()
        await session.call("look", {"name": "a"})
        await session.settle()
        await session.call("look", {"name": "a"})

    replays_as(recorded(work), "OK", "OK", "DENIED_DUPLICATE")
