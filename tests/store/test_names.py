"""One rule for ids, names, keys and reasons, whatever the engine: refused in one line, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from reenact import Runtime, skill
from reenact.errors import UsageError
from reenact.record.erase import erase

NUL = "a\0b"
SAYS = "holds the character U\\+0000, which no store keeps in an id, a name, a key or a reason"


@skill("echo", version="1.0.0", tool_class="write", honours_key=True)
def echo(value: int) -> int:
    """The same."""
    return value


def step(**more: object) -> dict[str, object]:
    return {"step_id": "s", "skill_id": "echo", "parameters": {"value": 1}, **more}


def plan(**more: object) -> dict[str, object]:
    return {"plan_id": "p", "agent_id": "a", "steps": [step()], **more}


def in_session(runtime: Runtime, **more: object) -> None:
    with runtime.session(**more) as session:  # type: ignore[arg-type]
        session.call("echo", {"value": 1})


PRICE = {"models": {NUL: {"input": "1", "output": "1"}}}
DOORS: dict[str, Callable[[Runtime], object]] = {
    "an agent of a plan": lambda runtime: runtime.run(plan(agent_id=NUL)),
    "a plan": lambda runtime: runtime.run(plan(plan_id=NUL)),
    "a key of a step": lambda runtime: runtime.run(plan(steps=[step(idempotency_key=NUL)])),
    "a model with a budget": lambda runtime: runtime.run(plan(context={"budget": {"per_model_cents": {NUL: 1}}})),
    "a model with a price": lambda runtime: runtime.run(plan(context={"prices": PRICE})),
    "an agent of a session": lambda runtime: in_session(runtime, agent_id=NUL),
    "an agent of a session with an id": lambda runtime: in_session(runtime, agent_id=NUL, id="s"),
    "a session": lambda runtime: in_session(runtime, id=NUL),
}


@pytest.fixture
def runtime(store_url: str) -> Iterator[Runtime]:
    with closing(Runtime(store_url, skills=[echo])) as made:
        yield made


@pytest.mark.parametrize("door", DOORS)
def test_what_no_store_keeps_is_refused_before_anything_is_written(runtime: Runtime, door: str) -> None:
    with pytest.raises(UsageError, match=SAYS) as refused:
        DOORS[door](runtime)
    assert "\n" not in str(refused.value)
    assert runtime.store.runs() == []


def test_keys_names_and_reasons_of_later_are_refused_in_the_same_words(runtime: Runtime) -> None:
    with runtime.session(id="used") as session:
        assert session.call("echo", {"value": 1}).status == "success"
        with pytest.raises(UsageError, match=SAYS):
            session.call("echo", {"value": 2}, idempotency_key=NUL)
        for wanted in ({"operation": "set", "value": 1}, {"operation": "get"}, {"operation": "delete"}):
            for names in ({"key": NUL}, {"key": "k", "namespace": NUL}):
                outcome = session.call("kv_store", {**wanted, **names})
                assert outcome.code == "ERR_VALIDATION_FAILED"
                assert "U+0000" in str(outcome.message)
    (row,) = runtime.store.runs()
    for who, reason in ((NUL, "because"), ("ada", NUL)):
        with pytest.raises(UsageError, match=SAYS):
            erase(runtime.store, row.run_id, None, who=who, reason=reason)
    assert runtime.store.erasures() == []
