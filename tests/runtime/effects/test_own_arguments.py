"""A skill gets arguments of its own: what it does to them changes no record, no later attempt and nobody's plan."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from reenact import Runtime, SkillContext, SkillError, skill
from tests.engines.places import store_at

GOT: list[Any] = []


@skill("scribble", version="1.0.0", tool_class="write", idempotent=True)
def scribble(payload: dict[str, Any]) -> int:
    GOT.append(deepcopy(payload))
    payload["nested"]["mine"] = len(GOT)
    payload["more"] = True
    return 1


@skill("scribble_twice", version="1.0.0", tool_class="read", retry={"max_retries": 1, "backoff_base_ms": 1})
def scribble_twice(ctx: SkillContext, payload: dict[str, Any]) -> int:
    GOT.append(deepcopy(payload))
    payload["nested"]["mine"] = True
    if ctx.attempt == 0:
        raise SkillError.of("ERR_TIMEOUT", "once more")
    return 1


def test_equal_calls_stay_equal_whatever_the_skill_did_to_its_arguments() -> None:
    with Runtime(store_at(":memory:"), skills=[scribble]).session() as session:
        codes = [session.call("scribble", {"payload": {"nested": {}}}).code for _ in range(3)]
    assert codes == ["OK", "DENIED_DUPLICATE", "DENIED_DUPLICATE"]


def test_the_next_attempt_gets_what_the_first_one_got_and_the_plan_is_left_alone() -> None:
    GOT.clear()
    step = {"step_id": "s", "skill_id": "scribble_twice", "skill_version": "1.0.0"}
    plan = {"plan_id": "p", "agent_id": "a", "steps": [{**step, "parameters": {"payload": {"nested": {"a": 1}}}}]}
    before = deepcopy(plan)
    assert Runtime(store_at(":memory:"), skills=[scribble_twice]).run(plan).status == "completed"
    assert GOT == [{"nested": {"a": 1}}] * 2
    assert plan == before
