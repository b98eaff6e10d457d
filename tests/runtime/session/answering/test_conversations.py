"""A loop that sends on its conversation says the same to the model in every start, whatever came of a call since."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.errors import WaitingForPerson
from reenact.runtime.people import decisions as people
from reenact.runtime.session.answering import went_on
from reenact.runtime.session.session import Session
from tests.crash.harness import KILLED, in_child
from tests.engines.places import store_at
from tests.runtime.session.answering.programs import Stop
from tests.runtime.session.answering.test_where_parts_meet import verified

WRITE: dict[str, Any] = {"version": "1.0.0", "tool_class": "write"}
SENT: list[str] = []


async def never_answers(name: str) -> str:
    SENT.append(name)
    await asyncio.Event().wait()
    return name


@skill("cut_off", **WRITE, in_doubt="hold", timeout_ms=50)
async def cut_off() -> str:
    return await never_answers("cut_off")


@skill("given_up", **WRITE, in_doubt="hold")
async def given_up() -> str:
    return await never_answers("given_up")


@skill("given_up_again", **WRITE)
async def given_up_again() -> str:
    return await never_answers("given_up_again")


@skill("asked_about", **WRITE)
def asked_about() -> str:
    SENT.append("asked_about")
    return "asked_about"


@skill("fine", **WRITE)
def fine() -> str:
    SENT.append("fine")
    return "fine"


def asks(*names: str) -> dict[str, Any]:
    return {"text": "", "tool_calls": [{"name": name, "arguments": {}} for name in names]}


def runtime(path: Path, tool: str) -> Runtime:
    """A model that asks for this tool and another, then for the other once more."""
    skills = [cut_off, given_up, given_up_again, asked_about, fine]
    asks_about = (lambda call: call.skill_id != tool or "ask") if tool == "asked_about" else None
    found = Runtime(store_at(path / "store.db"), skills=skills, supervisor=asks_about)
    script = (asks(tool, "fine"), asks("fine"), "Done.")
    found.services["llm_stub"] = lambda asked: script[sum(said["role"] == "assistant" for said in asked.messages)]
    return found


async def loop(session: Session, stops_after: int) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": "Please."}]
    answers = 0
    while True:
        answer: Any = (await session.call("llm_invoke", {"messages": messages, "tools": session.tools()})).output
        answers += 1
        if answers == stops_after:
            raise Stop
        for call in answer["tool_calls"]:
            with suppress(TimeoutError, WaitingForPerson):
                limit_s = 0.6 if call["name"].startswith("given_up") else None
                outcome = await asyncio.wait_for(session.call_tool(call), limit_s)
                message: Any = (await session.conversation())[-len(answer["tool_calls"])]
                assert answer["tool_calls"][0] != call or message == outcome.as_message(call["id"])
        messages = await session.conversation()
        if not answer["tool_calls"]:
            return messages


def start(path: Path, tool: str, stops_after: int = 0) -> list[Any]:
    async def whole() -> list[Any]:
        async with runtime(path, tool).session(id="order-42") as session:
            return await loop(session, stops_after)

    return asyncio.run(whole())


def people_say(path: Path, tool: str) -> None:
    """What the call came to, or that it may be made."""
    engine, reason = runtime(path, tool), "looked"
    if tool == "asked_about":
        asyncio.run(people.vote(engine, "order-42", "main:2", approve=True, reason=reason))
    else:
        asyncio.run(people.resolve(engine, "order-42", "main:2", "succeeded", reason=reason, output="done"))


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("cut_off", "ERR_IN_DOUBT: Do not call this again. It was sent and its answer is lost"),
        ("given_up", "ERR_IN_DOUBT: Do not call this again. It was sent and its answer is lost"),
        ("given_up_again", "This call was interrupted; whether it took effect is not known. Do not call it again"),
        ("asked_about", "This call waits for a person to approve it; nothing was sent."),
    ],
    ids=["cut_off", "given_up", "given_up_again", "asked_about"],
)
def test_what_came_of_a_call_after_the_model_was_told_is_not_told_to_it_in_its_place(
    tmp_path: Path, tool: str, said: str
) -> None:
    SENT.clear()
    with pytest.raises(Stop):
        start(tmp_path, tool, stops_after=2)
    people_say(tmp_path, tool)
    for stops_after in (2, 3):
        with pytest.raises(Stop):
            start(tmp_path, tool, stops_after)
    messages = start(tmp_path, tool)
    assert messages[2]["content"].startswith(said)
    assert [message["content"] for message in messages if message["role"] == "tool"][1:] == ['"fine"', '"fine"']
    assert start(tmp_path, tool) == messages, "an ended one answers the same"
    assert sorted(SENT) == sorted([tool, "fine", "fine"]), "nothing is sent twice"
    verified(tmp_path)


def test_a_model_is_told_once_what_to_do_about_a_doubt(tmp_path: Path) -> None:
    """Whether by the call itself or by another under its key, in sentences that end."""
    with runtime(tmp_path, "cut_off").session(id="order-42") as session:
        lost = session.call("cut_off", {}, idempotency_key="k").as_message("1")
    with runtime(tmp_path, "cut_off").session(id="order-43") as session:
        again = session.call("cut_off", {}, idempotency_key="k").as_message("1")
    assert str(lost["content"]).count("Do not call") == str(again["content"]).count("Do not call") == 1
    assert ". Do not call it again: " in str(again["content"])


class GivenUpOn:
    """A tool that answers when its caller has just given up on it."""

    def __init__(self, path: Path, *, is_lost: bool = False) -> None:
        self._path = path
        self._is_lost = is_lost
        self._caller: asyncio.Task[Any] | None = None

    def runtime(self) -> Runtime:
        def give_up() -> None:
            assert self._caller is not None
            asyncio.get_running_loop().call_soon(self._caller.cancel)

        async def nobody_knows(_ctx: SkillContext) -> None:
            give_up()

        @skill("too_late", **WRITE, **({"in_doubt": "reconcile", "reconcile": nobody_knows} if self._is_lost else {}))
        async def too_late() -> str:
            give_up()
            return "too late"

        found = Runtime(store_at(self._path / "store.db"), skills=[too_late, fine])
        script = (asks("too_late"), "Done.")
        found.services["llm_stub"] = lambda asked: script[sum(said["role"] == "assistant" for said in asked.messages)]
        return found

    def start(self, stops: type[BaseException] | None, *, asks_again: bool = True) -> list[Any]:
        async def whole() -> list[Any]:
            async with self.runtime().session(id="order-42") as session:
                messages: list[Any] = [{"role": "user", "content": "Please."}]
                answer: Any = (await session.call("llm_invoke", {"messages": messages})).output
                self._caller = asyncio.create_task(session.call_tool(answer["tool_calls"][0]))
                limit_s = None if stops is not None else 0.5
                with suppress(asyncio.CancelledError, TimeoutError):
                    await asyncio.wait_for(self._caller, limit_s)
                messages = await session.conversation()
                if asks_again:
                    await session.call("llm_invoke", {"messages": messages})
                if stops is not None:
                    raise stops
                return await session.conversation()

        return asyncio.run(whole())


@pytest.mark.parametrize("died_in_it", [False, True], ids=["in the start that made it", "in the one after it"])
def test_an_answer_that_came_when_its_caller_had_just_given_up_is_told_as_it_is_in_the_next_start(
    tmp_path: Path, *, died_in_it: bool
) -> None:
    tool = GivenUpOn(tmp_path)
    if died_in_it:
        assert in_child(lambda: tool.start(Stop), crash_at="before_dispatch:2") == KILLED
    with pytest.raises(Stop):
        tool.start(Stop)
    messages = tool.start(None)
    assert messages[2]["content"].startswith("This call was interrupted; whether it took effect is not known.")
    assert tool.start(None) == messages, "an ended one answers the same"
    verified(tmp_path)


def test_a_call_that_a_later_start_had_more_patience_for_is_told_with_its_answer_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(went_on, "GRACE_S", 0.1)
    tool = GivenUpOn(tmp_path)
    with pytest.raises(Stop):
        tool.start(Stop, asks_again=False)
    with pytest.raises(Stop):
        tool.start(Stop)
    messages = tool.start(None)
    assert messages[2]["content"] == '"too late"'
    verified(tmp_path)


def test_a_loss_that_was_found_when_its_caller_had_just_given_up_is_told_as_it_is_in_the_next_start(
    tmp_path: Path,
) -> None:
    tool = GivenUpOn(tmp_path, is_lost=True)
    assert in_child(lambda: tool.start(Stop), crash_at="before_dispatch:2") == KILLED
    with pytest.raises(Stop):
        tool.start(Stop)
    messages = tool.start(None)
    assert messages[2]["content"].startswith("ERR_IN_DOUBT: Do not call this again.")
    assert tool.start(None) == messages, "one that is held answers the same"
