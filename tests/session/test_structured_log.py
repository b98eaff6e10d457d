"""The log keeps what a replay must repeat apart from what it may not."""

from __future__ import annotations

import io
import json

from reenact import Runtime
from reenact.contracts.stability import FORBIDDEN_FIELDS
from reenact.runtime.structured_log import StructuredLog
from tests.session.conftest import World


def logged(world: World) -> list[dict[str, dict[str, object]]]:
    stream = io.BytesIO()
    runtime = Runtime(":memory:", skills=world.skills(), listeners=[StructuredLog(stream)])
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
