"""A skill, a gate and a host get the same values now as after a crash or in a replay: those of the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import skill
from reenact.errors import PlanError
from reenact.replay.api import load
from reenact.replay.modes.changes import apply_changes
from tests.runtime.running import Bench, plan, step


@skill("spell", version="1.0.0", tool_class="read")
def spell(value: Any) -> str:
    """How Python spells it, types and all."""
    return repr(value)


@skill("whole", version="1.0.0", tool_class="read")
def whole(number: int) -> int:
    """Takes whole numbers only."""
    return number


@skill("measure", version="1.0.0", tool_class="read")
def measure() -> dict[str, float]:
    """Gives floats that are whole numbers."""
    return {"two": 2.0, "nothing": -0.0, "large": 1e20, "half": 0.5}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, spell, whole, measure)


def test_a_skill_gets_from_a_plan_what_it_gets_from_the_recorded_plan(bench: Bench) -> None:
    values = [1.0, -0.0, 1e20, 0.5, [2.0, {"a": (3.0,)}], {"b": 1, "a": 2}]
    first = bench.run(*(step(spell, {"value": value}) for value in values))
    again = bench.runtime.replay(first.run_id, mode="full_replay")
    outputs = [first.get_step(name).outcome.output for name in first.steps]
    assert outputs == ["1", "0", "1e+20", "0.5", "[2, {'a': [3]}]", "{'a': 2, 'b': 1}"]
    assert [again.get_step(name).outcome.output for name in again.steps] == outputs


def test_so_do_the_gates_of_a_plan_that_is_pinned_already(bench: Bench) -> None:
    pinned = bench.runtime.pinned(plan(step(whole, {"number": 1})))
    pinned["steps"][0]["parameters"]["number"] = 1.0
    assert bench.runtime.run(pinned).status == "completed"


def test_a_host_gets_now_what_it_gets_when_the_answer_is_served_again(bench: Bench) -> None:
    with bench.runtime.session(goal="measure", agent_id="agent") as session:
        now, later = (session.call("measure", {}, idempotency_key="once").output for _ in range(2))
    assert repr(now) == repr(later) == "{'half': 0.5, 'large': 1e+20, 'nothing': 0, 'two': 2}"


def test_a_fork_gets_what_its_changed_plan_will_say(bench: Bench) -> None:
    first = bench.run(step(spell, {"value": "as it was"}))
    recording = load(bench.runtime, first.run_id)
    changes = apply_changes(recording, {"steps.s0.parameters.value": [1.0, 0.5]})
    forked = bench.runtime.fork(first.run_id, "s0", changes=changes, live=True)
    assert forked.get_step("s0").outcome.output == "[1, 0.5]"


@pytest.mark.parametrize("value", [b"bytes", float("nan"), 2**60, {1: 2}, "\ud800"])
def test_a_value_that_cannot_be_recorded_is_refused_with_its_step(bench: Bench, value: object) -> None:
    with pytest.raises(PlanError, match=r"^plan: \$\.steps\[1\]\.parameters: .* at /value/0$"):
        bench.run(step(spell, {"value": 1}), step(spell, {"value": [value]}))
    assert bench.store.runs() == []
