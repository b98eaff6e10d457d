"""What a session's calls do, and leave."""

from __future__ import annotations

import asyncio

import pytest

from reenact import Runtime
from reenact.errors import UsageError
from reenact.record.reader import RunReader
from reenact.store.checks.verification import verify_run
from tests.runtime.session.conftest import World


def test_what_a_call_returns_is_durable_before_it_returns(runtime: Runtime) -> None:
    with runtime.session(goal="look") as session:
        outcome = session.call("search", {"q": "x"})
        recorded = list(RunReader(runtime.store, session.run_id).steps())
        assert outcome.output == {"q": "x"}
        assert recorded[0].finished
        assert recorded[0].outcome().output == {"q": "x"}


def test_a_session_that_ended_is_sealed_and_its_plan_can_be_read(runtime: Runtime) -> None:
    with runtime.session(goal="look", agent_id="finder") as session:
        session.call("search", {"q": "x"})
        session.call("order", {"item": "{{c1.q}}"}, step_id="buy")
        session.finish(confidence=0.9)
    reader = RunReader(runtime.store, session.run_id)
    list(reader.steps())
    assert reader.fold.seal is not None
    assert reader.fold.seal.status == "completed"
    plan, document = reader.plan()
    assert [step.step_id for step in plan.steps] == ["c1", "buy"]
    assert document["agent_id"] == "finder"
    assert reader.fold.seal.plan_hash is not None


def test_a_reference_in_an_argument_of_a_session_is_only_text(runtime: Runtime, world: World) -> None:
    with runtime.session() as session:
        session.call("search", {"q": "x"})
        assert session.call("mail", {"to": "{{c1.q}}"}).output == "sent to {{c1.q}}"


def test_a_secret_that_the_model_names_is_not_resolved(runtime: Runtime, world: World) -> None:
    with runtime.session() as session:
        outcome = session.call("order", {"item": "x", "token": {"$secret": "SHOP_TOKEN"}})
    assert outcome.code == "ERR_VALIDATION_FAILED"
    assert world.seen == []


def test_a_secret_that_the_host_binds_reaches_the_skill_and_nothing_else(runtime: Runtime, world: World) -> None:
    with runtime.session() as session:
        session.call("order", {"item": "x"}, secrets={"/token": "SHOP_TOKEN"})
    assert world.seen == ["tok-very-secret-1"]
    step = next(iter(RunReader(runtime.store, session.run_id).steps()))
    assert step.parameters() == {"item": "x", "token": {"$secret": "SHOP_TOKEN"}}


@pytest.mark.parametrize("pointer", ["token", "", "/none/0/1/~2"])
def test_what_is_no_pointer_is_a_usage_error(runtime: Runtime, pointer: str) -> None:
    with pytest.raises(UsageError), runtime.session() as session:
        session.call("order", {"item": "x"}, secrets={pointer: "SHOP_TOKEN"})


def test_two_equal_mails_without_a_key_are_two_mails(runtime: Runtime, world: World) -> None:
    with runtime.session() as session:
        session.call("mail", {"to": "a"})
        session.call("mail", {"to": "a"})
    assert world.calls["mail"] == 2


def test_five_parallel_calls_with_one_key_are_one_execution_and_five_equal_results(
    runtime: Runtime, world: World
) -> None:
    async def race() -> list[object]:
        async with runtime.session() as session:
            calls = [session.call("order", {"item": "x"}, idempotency_key="order-42") for _ in range(5)]
            return [outcome.output for outcome in await asyncio.gather(*calls)]

    outputs = asyncio.run(race())
    assert world.calls["order"] == 1
    assert outputs == [outputs[0]] * 5


def test_the_same_key_with_other_arguments_is_a_conflict(runtime: Runtime, world: World) -> None:
    with runtime.session() as session:
        session.call("order", {"item": "x"}, idempotency_key="k")
        assert session.call("order", {"item": "y"}, idempotency_key="k").code == "IDEMPOTENCY_CONFLICT"
    assert world.calls["order"] == 1


def test_a_budget_stops_with_a_clear_reason(runtime: Runtime, world: World) -> None:
    with runtime.session(budget_cents=7) as session:
        codes = [session.call("priced", {"x": x}).code for x in range(3)]
    assert codes == ["OK", "OK", "ERR_BUDGET_EXCEEDED"]
    assert world.calls["priced"] == 2


def test_what_was_spent_today_counts_over_sessions_of_an_agent(runtime: Runtime) -> None:
    context = {"budget": {"per_day_cents": 7}}
    with runtime.session(agent_id="a", context=context) as session:
        assert [session.call("priced", {"x": x}).code for x in range(2)] == ["OK", "OK"]
    with runtime.session(agent_id="a", context=context) as session:
        denied = session.call("priced", {"x": 1})
    with runtime.session(agent_id="b", context=context) as session:
        assert session.call("priced", {"x": 1}).code == "OK"
    assert denied.code == "ERR_BUDGET_EXCEEDED"
    assert denied.details is not None
    assert denied.details["refused_by"] == "day"


def test_commands_that_verify_the_work_are_recorded_with_their_exit_codes(runtime: Runtime) -> None:
    with runtime.session() as session:
        assert session.verify(["true", "false", "no-such-command-anywhere"]) == [0, 1, 127]
    reader = RunReader(runtime.store, session.run_id)
    list(reader.steps())
    event = next(event for event in reader.fold.events if event.type == "verify")
    value = reader.payloads.get(str(event.data))
    assert isinstance(value, dict)
    assert value["exit_codes"] == [0, 1, 127]
    assert value["verification_delta"] == 1


def test_a_session_verifies_as_a_plan_does(runtime: Runtime) -> None:
    async def work() -> str:
        async with runtime.session(goal="g") as session:
            await asyncio.gather(*[session.call("search", {"q": str(n)}) for n in range(6)])
            await session.turn()
            await session.call("order", {"item": "x"}, idempotency_key="k")
            await session.call("order", {"item": "x"}, idempotency_key="k")
            await session.call("nobody", {})
            return session.run_id

    run_id = asyncio.run(work())
    assert verify_run(runtime.store.url, run_id).exit_code == 0


def test_an_agent_with_hosts_names_no_other_host(runtime: Runtime) -> None:
    context = {"profile": {"hosts": ["api.example.com", "*.internal.example", "127.0.0.1:9"]}}
    with runtime.session(context=context) as session:
        urls = [
            "https://api.example.com/x",
            "https://evil.example.com/",
            "https://a.internal.example:8443/",
            "http://api.example.com@evil.example.com/",
        ]
        codes = [session.call("http_call", {"url": url}).code for url in urls]
    assert [code == "ERR_BLOCKED_HOST" for code in codes] == [False, True, False, True]
