"""The log keeps what a replay must repeat apart from what it may not."""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import suppress

import pytest

from reenact import Runtime
from reenact.contracts.stability import FORBIDDEN_FIELDS
from reenact.errors import WaitingForPerson
from reenact.runtime.people import decisions as people
from reenact.runtime.structured_log import StructuredLog
from reenact.values.clock import FixedClock
from tests.engines.places import opened, store_at
from tests.replay.recording import Crash, armed
from tests.runtime.session.conftest import World


def logged(world: World) -> list[dict[str, dict[str, object]]]:
    stream = io.BytesIO()
    runtime = Runtime(store_at(":memory:"), skills=world.skills(), listeners=[StructuredLog(stream)])
    steps = [{"step_id": f"s{n}", "skill_id": "order", "parameters": {"item": "x"}} for n in range(2)]
    runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps})
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_two_runs_of_a_plan_log_the_same_deterministic_fields(world: World) -> None:
    first, second = logged(world), logged(world)
    assert [line["deterministic"] for line in first] == [line["deterministic"] for line in second]
    assert [line["other"] for line in first] != [line["other"] for line in second]
    assert [line["deterministic"]["event"] for line in first].count("step_ended") == 2


def test_no_forbidden_field_stands_among_the_deterministic_ones(world: World) -> None:
    forbidden = {row.field for row in FORBIDDEN_FIELDS}
    assert all(not forbidden & set(line["deterministic"]) for line in logged(world))


def told(stream: io.BytesIO) -> list[tuple[object, object, object]]:
    """(event, skill, status) of each line."""
    lines = [json.loads(line)["deterministic"] for line in stream.getvalue().splitlines()]
    return [(line["event"], line.get("skill_id"), line.get("status")) for line in lines]


def test_every_line_about_a_step_names_its_skill(world: World) -> None:
    assert all(
        line["deterministic"]["skill_id"] == "order"
        for line in logged(world)
        if line["deterministic"]["event"] in ("step_started", "attempt", "step_ended")
    )


def test_a_run_that_stops_for_a_person_is_told_and_so_is_what_was_read_when_it_goes_on(world: World) -> None:
    stream = io.BytesIO()
    runtime = Runtime(store_at(":memory:"), skills=world.skills(), listeners=[StructuredLog(stream)])
    steps = [{"step_id": "s", "skill_id": "mail", "parameters": {"to": "x"}}]
    runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps, "context": {"supervisor": "ask"}})
    assert told(stream)[-1] == ("run_parked", None, "waiting")
    before = len(stream.getvalue().splitlines())
    asyncio.run(people.vote(runtime, "last", None, approve=True, reason="fine"))
    assert len(stream.getvalue().splitlines()) == before, "a vote is no recovery"
    runtime.resume("last")
    line = json.loads(stream.getvalue().splitlines()[before])
    assert line["deterministic"]["event"] == "recovered"
    assert "read 2 commits" in line["other"]["message"]


def test_a_session_that_stops_for_a_person_is_told(world: World) -> None:
    stream = io.BytesIO()
    runtime = Runtime(store_at(":memory:"), skills=world.skills(), listeners=[StructuredLog(stream)])
    with pytest.raises(WaitingForPerson), runtime.session(context={"supervisor": "ask"}) as session:
        session.call("mail", {"to": "a"})
    assert told(stream)[-1] == ("run_parked", None, "waiting")
    assert "reenact approve" in why(stream)


def test_a_session_whose_host_goes_on_without_the_answer_says_what_it_waits_for(world: World) -> None:
    stream = io.BytesIO()
    runtime = Runtime(store_at(":memory:"), skills=world.skills(), listeners=[StructuredLog(stream)])
    with runtime.session(context={"supervisor": "ask"}) as session, suppress(WaitingForPerson):
        session.call("mail", {"to": "a"})
    assert told(stream)[-1] == ("run_parked", None, "waiting")
    assert why(stream) == "a person is to approve or deny c1"


def why(stream: io.BytesIO) -> str:
    """What the last line says in our own words."""
    return str(json.loads(stream.getvalue().splitlines()[-1])["other"]["message"])


def test_a_call_that_is_sent_again_after_a_crash_is_told(world: World) -> None:
    stream, clock = io.BytesIO(), FixedClock()
    runtime = Runtime(
        opened(":memory:", clock=clock), skills=world.skills(), listeners=[StructuredLog(stream)], clock=clock
    )
    steps = [{"step_id": "s", "skill_id": "mail", "parameters": {"to": "x"}}]
    with armed("after_dispatch", 1), pytest.raises(Crash):
        runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps})
    clock.advance(60)
    runtime.resume("last")
    assert ("redispatch", "mail", None) in told(stream)
