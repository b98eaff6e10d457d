"""The duplicate gate of a session."""

from __future__ import annotations

import asyncio

from reenact import Runtime
from tests.runtime.session.conftest import World


def test_a_read_that_succeeded_is_not_made_twice_in_a_turn(runtime: Runtime, world: World) -> None:
    with runtime.session() as session:
        first = session.call("search", {"q": "x"})
        second = session.call("search", {"q": "x"})
        session.turn()
        third = session.call("search", {"q": "x"})
    assert [second.code, second.status, third.code] == ["DENIED_DUPLICATE", "skipped", "OK"]
    assert second.details is not None
    assert second.details["duplicate_of"] == first.observability.trace_id
    assert world.calls["search"] == 2


def test_a_read_that_failed_may_be_made_again(runtime: Runtime, world: World) -> None:
    world.fail_next = 1
    with runtime.session() as session:
        codes = [session.call("search", {"q": "x"}).code for _ in range(3)]
    assert codes == ["ERR_HTTP_404", "OK", "DENIED_DUPLICATE"]


def test_a_write_forgets_the_reads_of_what_it_wrote(runtime: Runtime) -> None:
    with runtime.session() as session:
        session.call("search", {"q": "x"})
        session.call("order", {"item": "x"})
        assert session.call("search", {"q": "x"}).code == "OK"


def test_parallel_equal_reads_run_once_and_a_failure_lets_the_next_one_go_on(runtime: Runtime, world: World) -> None:
    async def race() -> list[str]:
        async with runtime.session() as session:
            outcomes = await asyncio.gather(*[session.call("search", {"q": "x"}) for _ in range(4)])
            return sorted(outcome.code for outcome in outcomes)

    assert asyncio.run(race()) == ["DENIED_DUPLICATE"] * 3 + ["OK"]
    world.fail_next = 1
    assert asyncio.run(race()) == ["DENIED_DUPLICATE"] * 2 + ["ERR_HTTP_404", "OK"]


def test_a_denial_carries_the_earlier_output_when_asked(runtime: Runtime) -> None:
    with runtime.session(duplicate_output=True) as session:
        session.call("search", {"q": "x"})
        assert session.call("search", {"q": "x"}).output == {"q": "x"}


def test_a_plan_that_polls_one_address_twice_is_not_denied(runtime: Runtime, world: World) -> None:
    steps = [{"step_id": f"s{n}", "skill_id": "search", "parameters": {"q": "x"}} for n in range(2)]
    result = runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps})
    assert [step.final_code for step in result] == ["OK", "OK"]
    deduped = runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps, "context": {"dedupe": True}})
    assert [step.final_code for step in deduped] == ["OK", "DENIED_DUPLICATE"]
    assert deduped.status == "completed"
