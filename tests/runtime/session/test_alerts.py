"""Budgets that warn, and recovery that says what it read."""

from __future__ import annotations

from pathlib import Path

from reenact import Runtime
from reenact.runtime.listeners import Notice
from tests.engines.places import store_at
from tests.runtime.session.conftest import World


def test_listeners_hear_of_the_alert_threshold_and_of_a_soft_limit(world: World) -> None:
    heard: list[Notice] = []
    runtime = Runtime(store_at(":memory:"), skills=world.skills(), listeners=[heard.append])
    with runtime.session(budget_cents=4, context={"budget": {"mode": "soft", "alert_percent": 75}}) as session:
        codes = [session.call("priced", {"x": x}).code for x in range(2)]
    alerts = [notice.message or "" for notice in heard if notice.kind == "budget_alert"]
    assert codes == ["OK", "OK"]
    assert len(alerts) == 2
    assert "75 %" in alerts[0]
    assert "left in the budget of the run" in alerts[1]


def test_recovery_says_what_it_read(world: World, tmp_path: Path) -> None:
    heard: list[Notice] = []
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=world.skills(), listeners=[heard.append])
    plan = {
        "plan_id": "p",
        "agent_id": "a",
        "steps": [{"step_id": "m", "skill_id": "mail", "parameters": {"to": "x"}}],
        "context": {"supervisor": "ask"},
    }
    waiting = runtime.run(plan)
    runtime.resume(waiting.run_id)
    recovered = [notice.message for notice in heard if notice.kind == "recovered"]
    assert recovered == ["read 1 commit with 1 step from the beginning"]
    commits = runtime.store.find_run(waiting.run_id).commits
    runtime.resume(waiting.run_id)
    assert runtime.store.find_run(waiting.run_id).commits == commits, "waiting again writes nothing"
