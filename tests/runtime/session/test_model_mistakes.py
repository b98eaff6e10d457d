"""What models invent is an outcome, what hosts get wrong a clear error; neither breaks the evidence."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, Runtime, SkillError, skill, skill_from_schema
from reenact.errors import UsageError
from reenact.record.reader import RunReader
from reenact.store.checks.verification import verify_run
from reenact.values.canonical import MAX_DEPTH
from tests.engines.places import store_at
from tests.runtime.session.conftest import World


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


NAMES = ["sendEmail", "a b", "", "x" * 200, "search!", "tool.with.dots", "\ud800", "naïve", "search\n"]
PARAMETERS: list[Any] = [
    {"q": math.nan},
    {"q": b"x"},
    {"q": "\ud800"},
    {"q": 2**60},
    {1: "x"},
    [1],
    "text",
    {"q": nested(400)},
]


def check(runtime: Runtime, run_id: str) -> None:
    assert verify_run(runtime.store.url, run_id).exit_code == 0
    result = runtime.replay(run_id)
    assert result.ok, result


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_tool_can_have_is_an_outcome(runtime: Runtime, world: World, name: str) -> None:
    with runtime.session() as session:
        outcome = session.call(name, {"q": "x"})
        good = session.call("search", {"q": "x"})
        history = session.history()
    assert [outcome.code, outcome.status, good.code] == ["ERR_SKILL_NOT_FOUND", "failure", "OK"]
    assert outcome.step_id == "c1"
    assert [message["role"] for message in history] == ["assistant", "tool"] * 2
    check(runtime, session.run_id)


@pytest.mark.parametrize(
    "parameters", PARAMETERS, ids=lambda value: str(value)[:20].encode("ascii", "replace").decode()
)
def test_arguments_that_json_cannot_express_are_an_outcome(runtime: Runtime, world: World, parameters: Any) -> None:
    with runtime.session() as session:
        outcome = session.call("search", parameters)
        good = session.call("search", {"q": "x"})
    assert [outcome.code, good.code] == ["ERR_VALIDATION_FAILED", "OK"]
    assert outcome.details is not None
    assert "parameters" in str(outcome.details["reason"])
    assert world.calls == {"search": 1}
    check(runtime, session.run_id)


def test_arguments_as_deep_as_they_may_be_do_not_keep_a_session_from_its_plan(tmp_path: Any) -> None:
    @skill("deep", version="1.0.0", tool_class="read")
    async def deep(value: Any) -> int:
        return 1

    runtime = Runtime(store_at(tmp_path / "deep.db"), skills=Registry([deep]))
    with runtime.session() as session:
        codes = {
            session.call("deep", {"value": nested(levels)}).code for levels in range(MAX_DEPTH - 10, MAX_DEPTH + 2)
        }
    assert codes == {"OK", "ERR_VALIDATION_FAILED"}
    check(runtime, session.run_id)


@pytest.mark.parametrize("mark", [{"$secret": "SHOP_TOKEN"}, {"$sealed": "x"}, {"$secret": "X", "prefix": "y"}])
def test_what_a_model_writes_like_a_secret_or_a_mark_of_ours_fits_no_other_schema(tmp_path: Path, mark: Any) -> None:
    paid: list[object] = []
    amount = {"type": "integer", "maximum": 100}
    schema = {"type": "object", "properties": {"amount": amount, "$secret": {"type": "string"}}}
    pay = skill_from_schema("Pay", schema, lambda **given: paid.append(given), cost_estimate_cents=3)
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[pay])
    with runtime.session(budget_cents=10) as session:
        outcome = session.call("Pay", {"amount": mark})
        other = session.call("Pay", {"amount": 5, "$secret": 7})
        good = session.call("Pay", {"amount": 5, "$secret": "x", "note": mark})
    assert [outcome.code, other.code, good.code] == ["ERR_VALIDATION_FAILED", "ERR_VALIDATION_FAILED", "OK"]
    assert "/amount: " in str(outcome.details)
    assert "/$secret: " in str(other.details)
    assert paid == [{"amount": 5, "$secret": "x", "note": mark}]
    assert outcome.cost_cents == other.cost_cents == 0
    check(runtime, session.run_id)


def test_a_place_of_a_secret_that_the_arguments_do_not_have_is_an_outcome(runtime: Runtime, world: World) -> None:
    with runtime.session() as session:
        outcome = session.call("order", {"item": "x"}, secrets={"/item/x": "SHOP_TOKEN"})
    assert outcome.code == "ERR_VALIDATION_FAILED"
    assert world.seen == []
    check(runtime, session.run_id)


def test_a_skill_that_is_called_unknown_is_not_what_an_invented_name_reaches(tmp_path: Any) -> None:
    @skill("unknown", version="1.0.0", tool_class="read")
    async def unknown() -> int:
        return 1

    runtime = Runtime(store_at(tmp_path / "store.db"), skills=Registry([unknown]))
    with runtime.session() as session:
        codes = [session.call("Unknown").code, session.call("unknown").code, session.call("unknown", {"x": 1}).code]
    assert codes == ["ERR_SKILL_NOT_FOUND", "OK", "ERR_VALIDATION_FAILED"]
    check(runtime, session.run_id)


def test_the_history_names_what_the_model_said(runtime: Runtime) -> None:
    with runtime.session() as session:
        session.call("sendEmail", {"to": "a", "$x": 1})
        call, result = session.history(style="anthropic")
    assert call["content"][0]["name"] == "sendEmail"  # type: ignore[index]
    assert call["content"][0]["input"] == {"to": "a", "$x": 1}  # type: ignore[index]
    assert result["content"][0]["is_error"] is True  # type: ignore[index]


@pytest.mark.parametrize(
    "wrong",
    [
        {"secrets": {"bad": "SHOP_TOKEN"}},
        {"secrets": {"/q": 5}},
        {"idempotency_key": "\ud800"},
        {"idempotency_key": 5},
        {"idempotency_key": ""},
        {"idempotency_key": "k" * 300},
        {"version": "latest"},
        {"version": 1},
        {"step_id": "a b"},
        {"step_id": ""},
        {"step_id": 5},
        {"skill_id": None},
    ],
    ids=str,
)
def test_what_only_the_host_says_is_a_usage_error_that_leaves_nothing(
    runtime: Runtime, world: World, wrong: dict[str, Any]
) -> None:
    with runtime.session() as session:
        with pytest.raises(UsageError):
            session.call(**{"skill_id": "search", "parameters": {"q": "x"}, **wrong})
        assert session.call("search", {"q": "x"}).step_id == "c1"
    assert world.calls == {"search": 1}
    check(runtime, session.run_id)


def test_a_session_goes_on_after_a_mistake_and_a_restart(runtime: Runtime) -> None:
    with pytest.raises(ZeroDivisionError), runtime.session() as session:
        session.call("sendEmail", {})
        with pytest.raises(UsageError):
            session.call("search", {"q": "x"}, idempotency_key="")
        session.call("search", {"q": "x"})
        _ = 1 / 0
    with runtime.session(resume=session.run_id) as again:
        assert again.call("search", {"q": "y"}).step_id == "c3"
    indexes = [step.trace.step_index for step in RunReader(runtime.store, session.run_id).steps()]
    assert indexes == [0, 1, 2]
    check(runtime, session.run_id)


def test_wrong_and_good_calls_side_by_side_leave_no_gap(runtime: Runtime) -> None:
    async def work() -> tuple[str, list[str]]:
        async with runtime.session() as session:
            named = [("search", {"q": "1"}), ("bad name", {}), ("search", {"q": math.inf}), ("search", {"q": "2"})]
            outcomes = await asyncio.gather(*[session.call(name, parameters) for name, parameters in named])
            return session.run_id, [outcome.code for outcome in outcomes]

    run_id, codes = asyncio.run(work())
    assert codes == ["OK", "ERR_SKILL_NOT_FOUND", "ERR_VALIDATION_FAILED", "OK"]
    check(runtime, run_id)


def test_a_model_reads_in_its_history_why_its_call_was_refused(runtime: Runtime, world: World) -> None:
    with runtime.session() as session:
        session.call("search", {})
        session.call("serach", {"q": "x"})
        refused, unknown = (message["content"] for message in session.history() if message["role"] == "tool")
    assert refused == "ERR_VALIDATION_FAILED: search@1.0.0: /q: is required"
    assert unknown.startswith("ERR_SKILL_NOT_FOUND: no skill serach")


def test_a_model_reads_what_a_skill_said_whatever_its_details_are_called(world: World) -> None:
    @skill("charge", version="1.0.0", tool_class="write")
    def charge(cents: int) -> int:
        raise SkillError.of("CARD_DECLINED", "the bank declined it", reason="R01", cents=cents)

    with Runtime(store_at(":memory:"), skills=[charge]).session() as session:
        session.call("charge", {"cents": 5})
        assert session.history()[-1]["content"] == "CARD_DECLINED: the bank declined it"


@pytest.mark.parametrize("levels", [260, 500, 2000])
def test_arguments_that_are_nested_too_deep_are_an_outcome(levels: int, tmp_path: Path) -> None:
    deep: object = 1
    for _ in range(levels):
        deep = [{"a": deep}]
    with Runtime(store_at(tmp_path / "a.db")).session() as session:
        outcome = session.call("json_transform", {"value": deep, "operations": []})
    assert outcome.code == "ERR_VALIDATION_FAILED"
