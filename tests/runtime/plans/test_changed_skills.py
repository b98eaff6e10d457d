"""A run goes on with the declarations that it began with, and a pinned plan runs with those that it was pinned with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import PlanError, WaitingForPerson
from reenact.skills.skill import Skill
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import FixedClock
from tests.replay.recording import Crash, armed
from tests.runtime.running import plan, step

SENT: list[str] = []


def declared(**fields: Any) -> Skill:
    @skill("pay", version="1.0.0", tool_class="write", **fields)
    async def pay(text: str) -> str:
        SENT.append(text)
        return text

    return pay


@pytest.fixture
def clock() -> FixedClock:
    SENT.clear()
    return FixedClock()


def runtime_with(path: Path, clock: FixedClock, tool: Skill) -> Runtime:
    return Runtime(SqliteStore(str(path), clock=clock), skills=[tool], clock=clock)


CHANGES = [
    ({"honours_key": True}, {"honours_key": False}),
    ({"in_doubt": "hold"}, {}),
    ({}, {"timeout_ms": 77}),
]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_a_call_in_doubt_whose_skill_was_declared_anew_is_held(
    tmp_path: Path, clock: FixedClock, before: dict[str, Any], after: dict[str, Any]
) -> None:
    path, first = tmp_path / "store.db", declared(**before)
    with armed("after_dispatch", 1), pytest.raises(Crash):
        runtime_with(path, clock, first).run(plan(step(first, {"text": "a"})))
    clock.advance(60)
    held = runtime_with(path, clock, declared(**after)).resume("last")
    assert (held.status, SENT) == ("held", ["a"])
    assert "pay@1.0.0" in str(held.reason)
    assert "reenact cancel" in str(held.reason)
    again = runtime_with(path, clock, first).resume("last")
    assert again.status == ("held" if before.get("in_doubt") else "completed")


def test_a_session_does_not_ask_a_changed_skill_about_a_call_in_doubt(tmp_path: Path, clock: FixedClock) -> None:
    path, first = tmp_path / "store.db", declared(in_doubt="hold")
    runtime = runtime_with(path, clock, first)
    with armed("after_dispatch", 1), pytest.raises(Crash), runtime.session() as session:
        session.call("pay", {"text": "a"})
    clock.advance(60)
    changed = runtime_with(path, clock, declared())
    with pytest.raises(WaitingForPerson, match="another declaration"), changed.session(resume=session.run_id):
        pass
    assert changed.store.find_run(session.run_id).status == "held"


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_a_pinned_plan_is_refused_where_a_skill_is_declared_otherwise(
    tmp_path: Path, clock: FixedClock, before: dict[str, Any], after: dict[str, Any]
) -> None:
    first = declared(**before)
    pinned = runtime_with(tmp_path / "a.db", clock, first).pinned(plan(step(first, {"text": "a"})))
    other = runtime_with(tmp_path / "b.db", clock, declared(**after))
    with pytest.raises(PlanError, match=r"pay@1\.0\.0 changed its definition.*pin the plan again"):
        other.run(pinned)
    assert (SENT, other.store.runs()) == ([], [])
