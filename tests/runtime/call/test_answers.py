"""The first answer of a call and every later one are equal, to the order of keys: what the record gives back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reenact import Runtime, SkillError, skill
from reenact.contracts.outcome import StructuredOutcome
from reenact.record.reader import RunReader
from reenact.replay import replay
from reenact.runtime.effects.secrets import Secrets
from reenact.runtime.writing.redaction import Redactor
from reenact.store.base import Store
from tests.crash.harness import in_child
from tests.engines.places import store_at
from tests.runtime.running import Bench, plan, step

TOKEN = "sk-live0Tk0nABCDEFGHIJKLMNOP"
NAMES = ["b", "a", "output", "message", "gate", "password", "$sealed", "$secret", "é", "\U0001f600", "\uffff"]
TEXTS = ["", "x", "[redacted]", TOKEN, f"Bearer {TOKEN} and more", "{{a.b}}", "\u2028", "ü"]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(TEXTS)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=5)
    ),
    max_leaves=12,
)

SAID: list[Any] = [None]
"""What the skills below say next."""


@skill("give", version="1.0.0", tool_class="read")
async def give() -> Any:
    return SAID[0]


@skill("give_once", version="1.0.0", tool_class="read", idempotent=True)
async def give_once() -> Any:
    return SAID[0]


@skill("fail", version="1.0.0", tool_class="read", retry={"max_retries": 0})
async def fail() -> None:
    raise SkillError.of("ERR_UNKNOWN", f"it says {SAID[0]!r}", z=1, said=SAID[0], a={"z": 1.0, "b": 2})


@skill("take", version="1.0.0", tool_class="read")
async def take(value: int) -> int:
    return value


HEARD: list[str] = []


@skill("hear", version="1.0.0", tool_class="read")
async def hear(said: Any) -> Any:
    HEARD.append(json.dumps(said))
    return said


SKILLS = [give, give_once, fail, take, hear]


def text_of(outcome: StructuredOutcome) -> str:
    return json.dumps(msgspec.to_builtins(outcome))


def answers(store: Store, run_id: str) -> dict[str, str]:
    """The recorded outcomes by step, as another process gives them."""
    redactor = Redactor(Secrets(), (), store.encryption_file)
    steps = RunReader(store, run_id).steps()
    return {recorded.step_id: text_of(redactor.answer(recorded.outcome())) for recorded in steps}


KEYS = count()


@pytest.fixture(scope="module")
def runtime(engine: str) -> Iterator[Runtime]:
    made = Runtime(store_at("sqlite:///:memory:"), skills=SKILLS)
    yield made
    made.close()


@settings(max_examples=60)
@example(value={"$sealed": ""})
@given(value=json_values)
def test_whatever_a_tool_says_is_given_back_as_it_was(runtime: Runtime, value: Any) -> None:
    SAID[0] = value
    key = f"k{next(KEYS)}"  # a key is one per store
    with runtime.session(duplicate_output=True) as session:
        made = [
            session.call("give"),
            session.call("give_once"),
            session.call("give_once"),  # a duplicate, with the output of the first
            session.call("give", idempotency_key=key),
            session.call("give", idempotency_key=key),  # served
            session.call("fail"),
            session.call("take", {"value": value}),  # for the most part refused by the first gate
            session.call("nobody", {"value": value}),
        ]
    assert [outcome.code for outcome in made[:6]] == ["OK", "OK", "DENIED_DUPLICATE", "OK", "OK", "ERR_UNKNOWN"]
    assert answers(runtime.store, session.run_id) == {outcome.step_id: text_of(outcome) for outcome in made}
    first = made[0].output
    assert json.dumps(first) == json.dumps(made[2].output) == json.dumps(made[4].output)


@settings(max_examples=20)
@given(value=json_values)
def test_a_later_step_of_a_plan_is_handed_the_records_order(runtime: Runtime, value: Any) -> None:
    SAID[0] = {"value": value, "a": 1}
    HEARD.clear()
    result = runtime.run(plan(step(give), step(hear, {"said": "{{s0}}"}), step(hear, {"said": "{{s1}}"})))
    if "[redacted]" in str(value):  # which stands for a secret that was taken out
        assert result.outcomes[1].code == "ERR_VALIDATION_FAILED"
        return
    assert result.status == "completed", result.outcomes
    assert HEARD[0] == HEARD[1]
    assert [text_of(outcome) for outcome in result.outcomes] == [
        text_of(recorded.outcome()) for recorded in RunReader(runtime.store, result.run_id).steps()
    ]


class Thing:
    pass


@dataclass
class Point:
    y: float
    x: float


REFUSED = [2**53 + 1, -(2**53), float("nan"), float("inf"), b"\x89PNG", bytearray(b"x"), {"deep": [Thing()]}, {1, 2}]


@pytest.mark.parametrize("value", [*REFUSED, {"a": b"x"}, {1: "a key that is no text"}, "\ud800"])
def test_what_the_record_cannot_hold_is_refused_at_the_first_answer(tmp_path: Path, value: Any) -> None:
    SAID[0] = value
    bench = Bench(tmp_path, *SKILLS)
    with bench.runtime.session() as session:
        outcome = session.call("give")
    assert (outcome.code, outcome.retryable) == ("ERR_SERIALIZATION_FAILED", False)
    assert outcome.message.startswith("the result cannot be recorded: ")
    assert answers(bench.store, session.run_id) == {"c1": text_of(outcome)}
    bench.check(session.run_id)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Point(2.0, 1.5), '{"x": 1.5, "y": 2}'),
        ((1, 2.0), "[1, 2]"),
        (1e22, "1e+22"),
        (-0.0, "0"),
        ({"z": 1, "a": 2}, '{"a": 2, "z": 1}'),
    ],
)
def test_what_it_holds_otherwise_is_turned_into_that_at_once(value: Any, text: str) -> None:
    SAID[0] = value
    with Runtime(store_at("sqlite:///:memory:"), skills=SKILLS).session() as session:
        assert json.dumps(session.call("give").output) == text


@skill("large", version="1.0.0", tool_class="read")
def large() -> dict[str, Any]:
    return {"text": "é" * 500_000, "list": [{"z": number, "a": 0.5} for number in range(20_000)]}


@skill("log_in", version="1.0.0", tool_class="read")
def log_in() -> dict[str, Any]:
    return {"user": "kim", "session_token": "morning has broken 81", "note": f"valid: {TOKEN}"}


@skill("image", version="1.0.0", tool_class="read")
def image() -> bytes:
    return b"\x89PNG\r\n"


@skill("in_a_process", version="1.0.0", tool_class="read", isolation="process")
def in_a_process() -> dict[str, Any]:
    return {"z": 2.0, "a": {"password": TOKEN}}


@pytest.mark.parametrize("served", [large, log_in, image, in_a_process])
def test_a_second_process_gets_what_the_first_got(tmp_path: Path, served: Any) -> None:
    said = tmp_path / "said.json"

    def first() -> None:
        with Bench(tmp_path, served).runtime.session() as session:
            outcome = session.call(served.skill_id, idempotency_key="k")
            said.write_text(text_of(outcome), encoding="utf-8")

    assert in_child(first) == 0
    bench = Bench(tmp_path, served)
    run_id = bench.store.find_run("last").run_id
    assert answers(bench.store, run_id) == {"c1": said.read_text(encoding="utf-8")}
    assert replay(bench.store, run_id).verdict == "matched"
    output = json.loads(said.read_text(encoding="utf-8"))["details"]
    with bench.runtime.session() as session:
        again = session.call(served.skill_id, idempotency_key="k")
    assert json.dumps(again.output) == json.dumps((output or {}).get("output"))
