"""An agent loop with a model: tools offered, tool calls made, the conversation rebuilt from the record."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, Runtime, SkillContext, skill
from reenact.errors import SkillNotFound, UsageError
from reenact.runtime import crash_points
from reenact.store.checks.verification import verify_run
from tests.builtin.models import CLAUDE, GPT, KEY, claude_message, gpt_completion, says
from tests.builtin.servers import Behaviour, Request, Server
from tests.engines.places import store_at

BERGEN = {"city": "Bergen"}
DO_NOT = "Do not call it again"
pytestmark = pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")


@skill("weather", version="1.0.0", tool_class="read")
def weather(city: str, days: int = 1) -> dict[str, Any]:
    """What the sky does over a city."""
    return {"sky": "rain", "city": city, "days": days}


@skill("shop.buy", version="1.0.0", tool_class="write")
def buy(ctx: SkillContext, thing: str, password: str = "") -> str:
    """Buy a thing."""
    ctx.progress(f"buying a {thing}")
    return f"a {thing}"


def asks(*calls: tuple[str, Any], text: str = "") -> dict[str, Any]:
    return {"text": text, "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}


def host(path: Path, *script: object, skills: Any = (weather, buy)) -> Runtime:
    runtime = Runtime(store_at(path / "store.db"), skills=skills)
    runtime.services["llm_stub"] = list(script)
    return runtime


# -- offering --------------------------------------------------------------------------------------------------------


def test_the_skills_of_the_program_are_offered_in_order_and_the_built_in_ones_by_name(tmp_path: Path) -> None:
    with host(tmp_path, skills=[weather, buy]).session() as session:
        found: list[Any] = session.tools()
        again = Runtime(skills=[buy, weather], store=store_at(tmp_path / "b.db"))
        with again.session() as other:
            assert other.tools() == found
        assert [tool["function"]["name"] for tool in found] == ["shop__buy", "weather"]
        assert found[1] == {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "What the sky does over a city.",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
                    "required": ["city"],
                    "additionalProperties": False,
                },
            },
        }
        named: list[Any] = session.tools(["weather", "http_call", "weather"], style="anthropic")
        assert [tool["name"] for tool in named] == ["http_call", "weather"]
        assert named[1]["input_schema"] == found[1]["function"]["parameters"]
        assert named[1]["description"] == "What the sky does over a city."


def test_what_cannot_be_offered_is_refused(tmp_path: Path) -> None:
    @skill("shop__buy", version="1.0.0", tool_class="write")
    def other(thing: str) -> str:
        return thing

    with host(tmp_path, skills=[buy, other, weather]).session() as session:
        for ids in (None, ["shop.buy"]):
            with pytest.raises(UsageError, match=r"shop.buy and shop__buy are both shop__buy"):
                session.tools(ids)
        assert len(session.tools(["weather"])) == 1
        with pytest.raises(UsageError, match="shop__buy"):
            session.call_tool({"id": "x", "name": "shop__buy", "arguments": {}})
        with pytest.raises(SkillNotFound):
            session.tools(["wether"])
        with pytest.raises(UsageError, match=r"tools\(\['weather'\]\)"):
            session.tools("weather")
        with pytest.raises(UsageError, match="neither openai nor anthropic"):
            session.tools(style="mine")


def test_a_parameter_that_is_called_like_a_secret_does_not_keep_a_tool_from_being_offered(tmp_path: Path) -> None:
    with host(tmp_path, "Hello.").session() as session:
        outcome = session.call("llm_invoke", {"prompt": "Hi", "tools": session.tools()})
    assert outcome.ok


# -- calling ---------------------------------------------------------------------------------------------------------


class FromAnSdk:
    def model_dump(self) -> dict[str, Any]:
        return {"id": "1", "type": "function", "function": {"name": "shop__buy", "arguments": '{"thing": "lamp"}'}}


@pytest.mark.parametrize(
    "tool_call",
    [
        {"id": "1", "name": "shop__buy", "arguments": {"thing": "lamp"}},
        {"id": "1", "type": "function", "function": {"name": "shop__buy", "arguments": '{"thing": "lamp"}'}},
        {"type": "tool_use", "id": "1", "name": "shop__buy", "input": {"thing": "lamp"}},
        FromAnSdk(),
    ],
)
def test_a_tool_call_of_any_form_calls_its_skill(tool_call: object, tmp_path: Path) -> None:
    with host(tmp_path).session() as session:
        outcome = session.call_tool(tool_call)
        assert (outcome.output, outcome.metadata.skill_id) == ("a lamp", "shop.buy")


def test_the_async_session_does_the_same(tmp_path: Path) -> None:
    async def loop() -> None:
        async with host(tmp_path, asks(("weather", BERGEN)), "Rain.").session() as session:
            answer: Any = (await session.call("llm_invoke", {"prompt": "?", "tools": session.tools()})).output
            [call] = answer["tool_calls"]
            outcome = await session.call_tool(call, step_id="look", idempotency_key="k")
            assert (outcome.ok, outcome.step_id) == (True, "look")
            assert (await session.conversation())[-1] == outcome.as_message(call["id"])

    asyncio.run(loop())


@pytest.mark.parametrize("tool_call", [{}, {"id": "1"}, "weather", None, {"function": "weather"}, {"function": {}}])
def test_what_is_no_tool_call_is_the_hosts_mistake(tool_call: object, tmp_path: Path) -> None:
    with host(tmp_path).session() as session, pytest.raises(UsageError, match="no tool call"):
        session.call_tool(tool_call)


def test_what_a_model_gets_wrong_is_an_outcome_that_it_can_act_on(tmp_path: Path) -> None:
    with host(tmp_path).session() as session:

        def told(name: str, arguments: object) -> object:
            outcome = session.call_tool({"id": "1", "name": name, "arguments": arguments})
            return outcome.as_message("1")["content"]

        assert told("weather", {"citi": "x"}) == (
            "ERR_VALIDATION_FAILED: weather@1.0.0: /citi: is not known; /city: is required"
        )
        assert "are an object, not a str" in str(told("weather", '{"city": '))
        assert str(told("forecast", {})).startswith("ERR_SKILL_NOT_FOUND: no skill forecast")
        assert told("weather", BERGEN) == '{"city":"Bergen","days":1,"sky":"rain"}'


def test_an_outcome_is_a_message_of_either_form(tmp_path: Path) -> None:
    with host(tmp_path).session() as session:
        failed, good = session.call("weather"), session.call("weather", BERGEN)
    text = '{"city":"Bergen","days":1,"sky":"rain"}'
    assert good.as_message("1") == {"role": "tool", "tool_call_id": "1", "content": text}
    block = {"type": "tool_result", "tool_use_id": "1", "content": text, "is_error": False}
    assert good.as_message("1", style="anthropic") == {"role": "user", "content": [block]}
    assert failed.as_message("1", style="anthropic")["content"][0]["is_error"] is True  # type: ignore[index]
    with pytest.raises(UsageError):
        good.as_message("1", style="mine")


# -- streams ---------------------------------------------------------------------------------------------------------


def test_a_caller_hears_its_own_call_and_a_caller_that_fails_is_not_the_calls_trouble(tmp_path: Path) -> None:
    noticed: list[str | None] = []
    runtime = Runtime(store_at(tmp_path / "s.db"), skills=[buy], listeners=[lambda n: noticed.append(n.message)])
    runtime.services["llm_stub"] = ["It rains a lot.", "Yes."]
    heard: list[str] = []
    with runtime.session() as session:
        asked = {"prompt": "?", "stream": True}
        assert session.call("llm_invoke", asked, on_progress=heard.append).ok
        assert session.call("shop.buy", {"thing": "lamp"}).ok

        def fail(text: str) -> None:
            raise RuntimeError(text)

        assert session.call("shop.buy", {"thing": "bed"}, on_progress=fail).ok
    assert heard == ["It ", "rains ", "a ", "lot."]
    assert {*heard, "buying a lamp", "buying a bed"} <= set(noticed)
    assert runtime.on_progress == {}


# -- the conversation ------------------------------------------------------------------------------------------------


def test_the_conversation_is_what_a_loop_would_have_sent(tmp_path: Path) -> None:
    wrong = asks(("weather", {"citi": 1}), ("shop__buy", {"thing": "coat"}), ("nothing", {}), text="Let me see.")
    runtime = host(tmp_path, wrong, asks(("weather", BERGEN), ("weather", BERGEN)), "Take a coat.")
    messages: list[Any] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Coat?"}]
    with runtime.session() as session:
        assert session.conversation() == []
        while True:
            said = {"messages": messages, "tools": session.tools(), "system_prompt": "Be brief."}
            answer: Any = session.call("llm_invoke", said).output
            messages.append(answer["message"])
            if not answer["tool_calls"]:
                break
            session.call("weather", {"city": "Oslo"})  # nobody asked for this one
            for call in reversed(answer["tool_calls"]):  # a host may make them in any order
                session.call_tool(call)
            outcomes = session.conversation()[-len(answer["tool_calls"]) :]
            assert [message["tool_call_id"] for message in outcomes] == [call["id"] for call in answer["tool_calls"]]
            messages += outcomes
            assert session.conversation() == session.conversation(style="openai") == messages
        assert session.conversation() == messages
        anthropic: list[Any] = session.conversation(style="anthropic")
        assert [message["role"] for message in anthropic] == ["system", "user", *["assistant", "user"] * 2, "assistant"]
        assert [block["type"] for block in anthropic[2]["content"]] == ["text", *["tool_use"] * 3]
    assert [message["content"] for message in messages[3:6]] == [
        "ERR_VALIDATION_FAILED: weather@1.0.0: /citi: is not known; /city: is required",
        '"a coat"',
        "ERR_SKILL_NOT_FOUND: no skill nothing; `reenact skills` lists them, --skills FILE adds yours",
    ]
    assert runtime.replay(session.run_id).verdict == "matched"
    assert Runtime(runtime.store, skills=Registry()).replay(session.run_id).verdict == "matched"
    assert verify_run(runtime.store.url, session.run_id).exit_code == 0


def test_a_question_that_was_not_answered_is_ready_to_be_asked_again(tmp_path: Path) -> None:
    with host(tmp_path).session() as session:
        assert not session.call("llm_invoke", {"prompt": "Hi"}).ok  # the script is empty
        assert session.conversation() == [{"role": "user", "content": "Hi"}]
        assert session.conversation(style="anthropic") == [{"role": "user", "content": "Hi"}]


def test_the_first_version_has_a_conversation_too(tmp_path: Path) -> None:
    with host(tmp_path, "Hello.").session() as session:
        session.call("llm_invoke", {"prompt": "Hi"}, version="1.0.0")
        assert session.conversation() == [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello."},
        ]


@pytest.mark.parametrize(
    ("point", "said"),
    [("before_dispatch", "ERR_IN_DOUBT"), ("after_dispatch", "ERR_IN_DOUBT"), (None, "not made; nothing was sent")],
)
def test_a_killed_loop_tells_the_model_what_is_known_of_the_calls_it_asked_for(
    point: str | None, said: str, tmp_path: Path
) -> None:
    script = [asks(("weather", BERGEN), ("shop__buy", {"thing": "coat"})), "Done."]
    pid = os.fork()
    if pid == 0:
        with host(tmp_path, *script).session() as session:
            answer: Any = session.call("llm_invoke", {"prompt": "Coat?"}).output
            session.call_tool(answer["tool_calls"][0])
            if point is None:
                os.kill(os.getpid(), signal.SIGKILL)
            crash_points.arm(point)
            session.call_tool(answer["tool_calls"][1])
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    runtime = host(tmp_path, *script)
    with runtime.session(resume=runtime.store.find_run("last").run_id) as session:
        messages: list[Any] = session.conversation()
        answer = session.call("llm_invoke", {"messages": messages}).output
    assert answer["text"] == "Done."
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert messages[2]["content"] == '{"city":"Bergen","days":1,"sky":"rain"}'
    assert said in messages[3]["content"]
    assert (DO_NOT in messages[3]["content"]) is (point is not None)


def agent(runtime: Runtime, killed_after: int) -> list[Any]:
    """A loop that sends on whatever the conversation is; killed after so many tool calls, by a real signal."""
    done = 0
    with runtime.session(id="trip") as session:
        messages: list[Any] = [{"role": "user", "content": "Coat?"}]
        while True:
            answer: Any = session.call("llm_invoke", {"messages": messages, "tools": session.tools()}).output
            for call in answer["tool_calls"]:
                with session.lane("helper"):
                    assert session.conversation() == []  # a lane has one of its own
                    session.call("llm_invoke", {"prompt": f"How do I {call['name']}?", "model": "stub"})
                    assert len(session.conversation()) > 1
                session.call_tool(call)
                done += 1
                if done == killed_after:
                    os.kill(os.getpid(), signal.SIGKILL)
            messages = session.conversation()
            if not answer["tool_calls"]:
                return messages


def test_a_loop_that_is_started_again_is_told_the_same_conversation_at_every_point(tmp_path: Path) -> None:
    def script(request: Any) -> Any:
        given = sum(message["role"] == "assistant" for message in request.messages)
        if not request.tools:
            return "Just do it."
        two = asks(("weather", BERGEN), ("shop__buy", {"thing": "coat"}))
        return (two, asks(("weather", {"citi": "x"})), "Done.")[given]

    def started(path: Path) -> Runtime:
        path.mkdir(exist_ok=True)
        runtime = host(path)
        runtime.services["llm_stub"] = script
        return runtime

    for killed_after in (1, 2, 3):
        pid = os.fork()
        if pid == 0:
            agent(started(tmp_path / "killed"), killed_after)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    messages = agent(started(tmp_path / "killed"), 0)
    assert messages == agent(started(tmp_path / "whole"), 0)
    assert messages == agent(started(tmp_path / "killed"), 0)  # it has ended, and only answers
    assert [message["role"] for message in messages] == [
        "user", "assistant", "tool", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip


# -- both providers --------------------------------------------------------------------------------------------------


def protocol(model: str) -> Behaviour:
    """A model server that asks for the weather and then says what it was told, as its API would."""

    async def behave(request: Request, writer: Any) -> None:
        body = json.loads(request.body)
        last = body["messages"][-1]
        if model == GPT:
            function = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps(BERGEN)}
            call = {"id": "call_1", "type": "function", "function": function}
            told = last["content"] if last["role"] == "tool" else None
            message = {"role": "assistant", "content": told, **({} if told else {"tool_calls": [call]})}
            choice = {"index": 0, "message": message, "finish_reason": "stop" if told else "tool_calls"}
            answer = gpt_completion(choices=[choice])
        else:
            use = {"type": "tool_use", "id": "toolu_1", "name": body["tools"][0]["name"], "input": BERGEN}
            told = last["content"][0]["content"] if isinstance(last["content"], list) else None
            content = [{"type": "text", "text": told}] if told else [use]
            answer = claude_message(content=content, stop_reason="end_turn" if told else "tool_use")
        await says(answer)(request, writer)

    return behave


@pytest.mark.parametrize("style", ["openai", "anthropic"])
@pytest.mark.parametrize("model", [GPT, CLAUDE])
def test_a_loop_runs_on_either_provider_with_either_form(model: str, style: str, tmp_path: Path) -> None:
    importlib.import_module("openai" if model == GPT else "anthropic")
    with Server(protocol(model)) as server:
        runtime = Runtime(store_at(tmp_path / "s.db"), skills=[weather], secrets={"MODEL_KEY": KEY})
        base = server.url if model == CLAUDE else f"{server.url}/v1"
        asked = {"model": model, "base_url": base, "api_key": ""}
        with runtime.session(context={"allow_hosts": [server.name]}) as session:
            messages: list[Any] = [{"role": "user", "content": "Bergen?"}]
            for _ in range(2):
                said = {**asked, "messages": messages, "tools": session.tools(style=style)}
                outcome = session.call("llm_invoke", said, secrets={"/api_key": "MODEL_KEY"})
                answer: Any = outcome.output
                messages.append(answer["message"])
                messages += [
                    session.call_tool(call).as_message(call["id"], style=style) for call in answer["tool_calls"]
                ]
                own = "openai" if model == GPT else "anthropic"
                if own == style:
                    assert session.conversation() == messages
                assert session.conversation(style=style)[-1]["role"] == messages[-1]["role"]
        assert answer["text"] == '{"city":"Bergen","days":1,"sky":"rain"}'
        assert outcome.cost_cents == (1 if model == GPT else 2)
        assert [json.loads(request.body)["messages"][0]["content"] for request in server.requests] == ["Bergen?"] * 2
    assert runtime.replay(session.run_id).verdict == "matched"


def test_a_model_without_a_price_is_refused_and_says_so(tmp_path: Path) -> None:
    runtime = host(tmp_path, "Hello.", "Hello.")
    asked = {"prompt": "Hi", "model": "llama3.1:8b", "adapter": "stub"}
    with runtime.session() as session:
        refused = session.call("llm_invoke", asked)
    assert refused.code == "ERR_LLM_INVALID_MODEL"
    assert "no price is known for the model 'llama3.1:8b'" in str(refused.as_message("1")["content"])
    prices = {"models": {"llama3.1:8b": {"input": "0", "output": "1000000000"}}}
    with runtime.session(context={"prices": prices}) as session:
        assert session.call("llm_invoke", asked).cost_cents == 1
