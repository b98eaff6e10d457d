"""A session's calls become a plan that can be run again: nothing is accepted that would keep it from that."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, Runtime, skill
from reenact.contracts.plan import plan_hash
from reenact.errors import ChecksumMismatch, UsageError, WaitingForPerson
from reenact.record.reader import RunReader, steps_of
from reenact.runtime.people import decisions as people
from reenact.store.checks.verification import verify_run
from reenact.values.canonical import canonicalize
from tests.engines.places import store_at
from tests.runtime.session.conftest import World
from tests.store.backends import backend_at


def check(runtime: Runtime, run_id: str) -> list[str]:
    """The ids of the steps of a plan that verifies and replays."""
    assert verify_run(runtime.store.url, run_id).exit_code == 0
    result = runtime.replay(run_id)
    assert result.ok or result.verdict == "matched", result
    return [step.step_id for step in RunReader(runtime.store, run_id).plan()[0].steps]


def test_a_step_id_is_given_once(runtime: Runtime) -> None:
    with runtime.session() as session:
        session.call("search", {"q": "1"}, step_id="look")
        with pytest.raises(UsageError, match="another call"):
            session.call("search", {"q": "2"}, step_id="look")
        session.call("search", {"q": "3"}, step_id="look-again")
        session.call("search", {"q": "4"})
    assert check(runtime, session.run_id) == ["look", "look-again", "c3"]


def test_the_sessions_own_names_are_not_given_to_other_calls(runtime: Runtime) -> None:
    with runtime.session() as session:
        with pytest.raises(UsageError, match="the session itself"):
            session.call("search", {"q": "1"}, step_id="c2")
        session.call("search", {"q": "2"}, step_id="c1")
        session.call("search", {"q": "3"})
        session.call("search", {"q": "4"}, step_id="c03")
    assert check(runtime, session.run_id) == ["c1", "c2", "c03"]


def test_a_step_id_of_an_earlier_process_is_not_given_again(runtime: Runtime) -> None:
    with pytest.raises(ZeroDivisionError), runtime.session() as session:
        session.call("search", {"q": "1"}, step_id="look")
        _ = 1 / 0
    with runtime.session(resume=session.run_id) as again:
        with pytest.raises(UsageError, match="another call"):
            again.call("search", {"q": "2"}, step_id="look")
        again.call("search", {"q": "3"})
    assert check(runtime, session.run_id) == ["look", "c2"]


@pytest.mark.parametrize(
    "context",
    [
        {"retry": {"max_retrys": 3}},
        {"tool_registries": [{"no": "registry"}]},
        {"budget": {"mode": "gentle"}},
        {"unheard_of": 1},
    ],
    ids=str,
)
def test_a_mistake_in_the_context_is_told_when_the_session_opens(runtime: Runtime, context: dict[str, Any]) -> None:
    with pytest.raises(UsageError), runtime.session(context=context):
        pass
    assert runtime.store.runs() == []


def test_a_session_that_was_cancelled_has_its_plan_and_replays(runtime: Runtime, world: World) -> None:
    with pytest.raises(ZeroDivisionError), runtime.session() as session:
        session.call("search", {"q": "1"})
        session.call("order", {"item": "x"}, idempotency_key="k")
        _ = 1 / 0
    assert asyncio.run(people.cancel(runtime, session.run_id, reason="enough"))
    assert runtime.store.find_run(session.run_id).status == "cancelled"
    assert check(runtime, session.run_id) == ["c1", "c2"]


def test_a_session_that_was_cancelled_while_it_waited_has_its_plan_too(runtime: Runtime, world: World) -> None:
    with pytest.raises(WaitingForPerson), runtime.session(context={"supervisor": "ask"}) as session:
        session.call("search", {"q": "1"})
        session.call("mail", {"to": "a"})
    assert asyncio.run(people.cancel(runtime, session.run_id, reason="enough"))
    assert check(runtime, session.run_id) == ["c1", "c2"]
    assert world.calls == {"search": 1}


def test_a_plan_names_what_its_calls_were_made_with_and_is_read_whole(runtime: Runtime) -> None:
    with runtime.session() as session:
        session.call("search", {"q": "a question that stands nowhere else"})
        session.call("order", {"item": "x"}, idempotency_key="k")
    reader = RunReader(runtime.store, session.run_id)
    recorded = reader.recorded_plan()
    assert isinstance(recorded, dict)
    requests = [step.trace.request for step in steps_of(runtime.store, session.run_id).values()]
    assert [step["parameters"] for step in recorded["steps"]] == [
        request.proposal.args for request in requests if request
    ]
    assert set(recorded["steps"][1]["idempotency_key"]) == {"$commit"}
    assert b"nowhere else" not in canonicalize(recorded)
    seal = runtime.store.body(session.run_id, runtime.store.find_run(session.run_id).commits) or b""
    assert plan_hash(recorded).encode() in seal
    plan, _ = reader.plan()
    assert [step.parameters for step in plan.steps] == [{"q": "a question that stands nowhere else"}, {"item": "x"}]
    assert [step.idempotency_key for step in plan.steps] == [None, "k"]


def test_the_end_of_a_session_reads_no_value_again(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    with runtime.session() as session:
        for number in range(5):
            session.call("search", {"q": "x" * 3000 + str(number)})
        monkeypatch.setattr(type(runtime.store), "payload", lambda _store, _run, named, **_near: read.append(named))
    assert read == []


def test_a_session_is_not_sealed_over_commits_that_are_not_its_own(runtime: Runtime, tmp_path: Path) -> None:
    with pytest.raises(ChecksumMismatch, match="commit 3"), runtime.session() as session:
        session.call("search", {"q": "1"})
        session.call("search", {"q": "2"})
        change = backend_at(tmp_path).change_commit
        change(runtime.store, session.run_id, 2, lambda body: body.replace(b"search", b"sxarch"))
    assert runtime.store.find_run(session.run_id).status == "running"


def test_the_history_names_tools_as_model_apis_take_them(tmp_path: Path) -> None:
    long = "a" * 60 + "." + "b" * 60

    @skill("srv.look", version="1.0.0", tool_class="read")
    async def look() -> int:
        return 1

    @skill(long, version="1.0.0", tool_class="read")
    async def stretched() -> int:
        return 1

    runtime = Runtime(store_at(tmp_path / "store.db"), skills=Registry([look, stretched]))
    with runtime.session() as session:
        for name in ("srv.look", long, "send an email!"):
            session.call(name)
        openai = [message["tool_calls"][0]["function"]["name"] for message in session.history()[::2]]  # type: ignore[index]
        anthropic = [message["content"][0]["name"] for message in session.history(style="anthropic")[::2]]  # type: ignore[index]
    assert openai == anthropic
    assert openai == ["srv__look", f"{'a' * 55}-{sha256(long.encode()).hexdigest()[:8]}", "send_an_email_"]
