"""llm_invoke with tools, images and structured output: the real SDKs against servers that speak both protocols."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from reenact.builtin.llm_invoke import llm_invoke
from tests.builtin.calling import call
from tests.builtin.models import (
    CLAUDE,
    GPT,
    USAGE_CHUNK,
    ask,
    chunk,
    claude_message,
    claude_stream,
    gpt_completion,
    says,
    sse,
)
from tests.builtin.servers import Server
from tests.skills.contexts import make_context

pytestmark = pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OPENAI_TOOL = {"type": "function", "function": {"name": "weather", "description": "Sky.", "parameters": SCHEMA}}
CLAUDE_TOOL = {"name": "weather", "description": "Sky.", "input_schema": SCHEMA}
BERGEN = {"city": "Bergen"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": BERGEN}
ASKED = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Bergen"}'}}
PIXEL = "aGVsbG8="

OPENAI_TALK = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Where is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.jpg"}},
        ],
    },
    {"role": "assistant", "content": "Let me see.", "tool_calls": [ASKED, {**ASKED, "id": "call_2"}]},
    {"role": "tool", "tool_call_id": "call_1", "content": '{"sky":"rain"}'},
    {"role": "tool", "tool_call_id": "call_2", "content": "ERR_HTTP_404: nothing there"},
]
CLAUDE_TALK = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Where is this?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
            {"type": "image", "source": {"type": "url", "url": "https://example.com/a.jpg"}},
        ],
    },
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "Let me see."}, {**USE, "id": "call_1"}, {**USE, "id": "call_2"}],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_1", "content": '{"sky":"rain"}'},
            {"type": "tool_result", "tool_use_id": "call_2", "content": "ERR_HTTP_404: nothing there"},
        ],
    },
]


@pytest.fixture(scope="module", autouse=True)
def sdks() -> None:
    """Imported before any clock runs: on a busy machine that alone takes seconds."""
    importlib.import_module("anthropic")
    importlib.import_module("openai")


def sent(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(server.requests[0].body)
    return found


def with_calls(*calls: dict[str, Any], content: str | None = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "refusal": None, "annotations": [], "tool_calls": list(calls)}
    return gpt_completion(choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}])


# --- what is sent -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("messages", [OPENAI_TALK, [OPENAI_TALK[0], *CLAUDE_TALK]])
@pytest.mark.parametrize("tool", [OPENAI_TOOL, CLAUDE_TOOL])
def test_claude_gets_messages_and_tools_of_either_form_in_its_own(messages: Any, tool: Any) -> None:
    with Server(says(claude_message())) as server:
        called = ask(server, CLAUDE, prompt=None, messages=messages, tools=[tool], tool_choice="required")
    assert called.code == "OK"
    body = sent(server)
    assert (body["system"], body["messages"]) == ("Be brief.", CLAUDE_TALK)
    assert (body["tools"], body["tool_choice"]) == ([CLAUDE_TOOL], {"type": "any"})


@pytest.mark.parametrize("messages", [OPENAI_TALK, [OPENAI_TALK[0], *CLAUDE_TALK]])
@pytest.mark.parametrize("tool", [OPENAI_TOOL, CLAUDE_TOOL])
def test_gpt_gets_messages_and_tools_of_either_form_in_its_own(messages: Any, tool: Any) -> None:
    with Server(says(gpt_completion())) as server:
        called = ask(server, GPT, prompt=None, messages=messages, tools=[tool], tool_choice="weather")
    assert called.code == "OK"
    body = sent(server)
    assert (body["messages"], body["tools"]) == (OPENAI_TALK, [OPENAI_TOOL])
    assert body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}


@pytest.mark.parametrize(("model", "messages"), [(GPT, OPENAI_TALK), (CLAUDE, CLAUDE_TALK)])
def test_what_only_its_provider_knows_reaches_it(model: str, messages: list[Any]) -> None:
    known = [{**messages[0], "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}]
    known = [{**known[0], "role": "user"}]
    with Server(says(gpt_completion() if model == GPT else claude_message())) as server:
        assert ask(server, model, prompt=None, messages=known).code == "OK"
    assert sent(server)["messages"] == known


@pytest.mark.parametrize(
    ("model", "part"),
    [
        (CLAUDE, {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}}),
        (CLAUDE, {"type": "image_url"}),
        (GPT, {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PIXEL}}),
        (GPT, {"type": "image", "source": {"type": "file", "file_id": "f"}}),
    ],
)
def test_what_a_provider_has_no_words_for_is_refused_before_anything_is_sent(model: str, part: Any) -> None:
    with Server(says({})) as server:
        called = ask(server, model, prompt=None, messages=[{"role": "user", "content": [part]}])
    assert called.code == "ERR_VALIDATION_FAILED"
    assert (server.requests, called.report.side_effects) == ([], [])


def test_a_models_private_thinking_is_for_its_own_provider_only() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    messages = [CLAUDE_TALK[0], {"role": "assistant", "content": [thinking, USE]}, {
        "role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [
            {"type": "text", "text": "rain"},
            {"type": "image", "source": {"type": "url", "url": "https://example.com/sky.jpg"}},
        ]}],
    }]  # fmt: skip
    with Server(says(gpt_completion())) as server:
        ask(server, GPT, prompt=None, messages=messages)
    assert "hm" not in str(sent(server))
    assert sent(server)["messages"][2:] == [
        {"role": "tool", "tool_call_id": "toolu_1", "content": "rain"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/sky.jpg"}}]},
    ]
    with Server(says(claude_message())) as server:
        ask(server, CLAUDE, prompt=None, messages=messages)
    assert sent(server)["messages"] == messages


# --- what comes back --------------------------------------------------------------------------------------------


def test_claudes_tool_calls_come_back_with_the_message_to_send_on() -> None:
    content = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Well:"}, USE]
    with Server(says(claude_message(content=content, stop_reason="tool_use"))) as server:
        called = ask(server, CLAUDE, tools=[CLAUDE_TOOL])
    assert called.code == "OK"
    assert (called.output["text"], called.output["finish_reason"]) == ("Well:", "tool_use")
    assert called.output["tool_calls"] == [{"id": "toolu_1", "name": "weather", "arguments": BERGEN}]
    assert called.output["message"] == {"role": "assistant", "content": content}


def test_gpts_tool_calls_come_back_with_the_message_to_send_on() -> None:
    bad = {"id": "call_2", "type": "function", "function": {"name": "weather", "arguments": '{"city": '}}
    none = {"id": "call_3", "type": "function", "function": {"name": "now", "arguments": ""}}
    with Server(says(with_calls(ASKED, bad, none))) as server:
        called = ask(server, GPT, tools=[OPENAI_TOOL])
    assert called.code == "OK"
    assert called.output["tool_calls"] == [
        {"id": "call_1", "name": "weather", "arguments": BERGEN},
        {"id": "call_2", "name": "weather", "arguments": '{"city": '},
        {"id": "call_3", "name": "now", "arguments": {}},
    ]
    assert called.output["message"] == {"role": "assistant", "content": None, "tool_calls": [ASKED, bad, none]}


def test_a_compatible_server_that_gives_calls_no_id_gets_one_made() -> None:
    nameless = [{"type": "function", "function": ASKED["function"]}] * 2
    with Server(says(with_calls(*nameless))) as server:
        called = ask(server, "llama3.1:8b", adapter="openai-compatible")
    ids = [item["id"] for item in called.output["tool_calls"]]
    assert ids == ["chatcmpl-1-0", "chatcmpl-1-1"]
    assert [item["id"] for item in called.output["message"]["tool_calls"]] == ids


# --- streams ----------------------------------------------------------------------------------------------------


def streamed(server: Server, model: str) -> tuple[Any, list[str]]:
    heard: list[str] = []
    base = server.url if model == CLAUDE else f"{server.url}/v1"
    ctx = make_context(on_progress=heard.append, context={"allow_hosts": [server.name]})
    called = call(llm_invoke, {"prompt": "Hi", "model": model, "base_url": base, "stream": True}, ctx)
    return called, heard


def test_claudes_stream_is_heard_piece_by_piece_and_its_tool_call_is_whole() -> None:
    with Server(sse(*claude_stream("Let me ", "see.", use=USE, reason="tool_use"))) as server:
        called, heard = streamed(server, CLAUDE)
    assert heard == ["Let me ", "see."]
    assert called.output["tool_calls"] == [{"id": "toolu_1", "name": "weather", "arguments": BERGEN}]
    text = {"type": "text", "text": "Let me see."}
    assert called.output["message"] == {"role": "assistant", "content": [text, USE]}
    assert called.output["finish_reason"] == "tool_use"


def piece(index: int, *, name: str | None = None, identity: str | None = None, arguments: str = "") -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"index": index, "function": function} | ({"id": identity, "type": "function"} if identity else {})


@pytest.mark.parametrize("second", [1, 0])  # some servers give every call the index 0, with an id of its own
def test_gpts_stream_is_heard_piece_by_piece_and_its_tool_calls_are_whole(second: int) -> None:
    events = [
        chunk({"role": "assistant", "content": "Let "}),
        chunk({"content": "me."}),
        chunk({"tool_calls": [piece(0, name="weather", identity="call_1")]}),
        chunk({"tool_calls": [piece(0, arguments='{"city":')]}),
        chunk({"tool_calls": [piece(0, arguments='"Bergen"}')]}),
        chunk({"tool_calls": [piece(second, name="now", identity="call_2", arguments="{}")]}),
        chunk({}, "tool_calls"),
        USAGE_CHUNK,
        (None, "[DONE]"),
    ]
    with Server(sse(*events)) as server:
        called, heard = streamed(server, GPT)
    assert heard == ["Let ", "me."]
    assert called.output["tool_calls"] == [
        {"id": "call_1", "name": "weather", "arguments": BERGEN},
        {"id": "call_2", "name": "now", "arguments": {}},
    ]
    assert called.output["message"]["tool_calls"][0] == ASKED
    assert called.output["usage"] == {"input_tokens": 3, "output_tokens": 4}
    assert called.report.raw_response["choices"][0]["message"] == called.output["message"]


def test_what_else_a_server_streams_is_in_the_message_that_goes_back() -> None:
    """Some refuse the next question without it: a model's reasoning, the signature of a call."""
    signed = {**piece(0, name="now", identity="call_1"), "extra_content": {"signature": "s"}}
    events = [
        chunk({"role": "assistant", "content": None, "reasoning_content": "What "}),
        chunk({"reasoning_content": "time?", "reasoning_details": [{"n": 1}]}),
        chunk({"reasoning_details": [{"n": 2}], "tool_calls": [signed]}),
        chunk({"tool_calls": [piece(0, arguments="{}")]}),
        chunk({}, "tool_calls"),
        (None, "[DONE]"),
    ]
    with Server(sse(*events)) as server:
        called, heard = streamed(server, GPT)
    assert heard == []
    message = called.output["message"]
    assert (message["reasoning_content"], message["reasoning_details"]) == ("What time?", [{"n": 1}, {"n": 2}])
    made = {"name": "now", "arguments": "{}"}
    assert message["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": made, "extra_content": {"signature": "s"}}
    ]
    assert called.output["tool_calls"] == [{"id": "call_1", "name": "now", "arguments": {}}]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("stream", [True, False])
def test_content_in_parts_is_a_text_too(stream: bool) -> None:
    content = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Take a coat."}]
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    pieces = [chunk({"content": content}), chunk({}, "stop"), (None, "[DONE]")]
    with Server(sse(*pieces) if stream else says(gpt_completion(choices=[choice]))) as server:
        called = streamed(server, GPT)[0] if stream else ask(server, GPT)
    assert called.output["text"] == "Take a coat."


def test_a_refusal_in_a_stream_of_gpt_is_one() -> None:
    events = [chunk({"refusal": "I "}), chunk({"refusal": "cannot."}), chunk({}, "stop"), (None, "[DONE]")]
    with Server(sse(*events)) as server:
        called, _ = streamed(server, GPT)
    assert called.code == "ERR_LLM_CONTENT_FILTER"


# --- structured output ------------------------------------------------------------------------------------------

CLOSED = {**SCHEMA, "additionalProperties": False}
WRAPPED = {"type": "json_schema", "json_schema": {"name": "place", "schema": CLOSED, "strict": True}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (CLOSED, {**WRAPPED, "json_schema": {"name": "answer", "schema": CLOSED, "strict": True}}),
        (SCHEMA, {**WRAPPED, "json_schema": {"name": "answer", "schema": SCHEMA, "strict": False}}),
        (WRAPPED, WRAPPED),
        ({"type": "json_schema", "schema": CLOSED}, {
            **WRAPPED, "json_schema": {"name": "answer", "schema": CLOSED, "strict": True}
        }),
        ({"type": "json_object"}, {"type": "json_object"}),
    ],
)  # fmt: skip
def test_gpt_is_held_to_a_schema_and_its_answer_comes_back_as_a_value(given: Any, expected: Any) -> None:
    completion = gpt_completion()
    completion["choices"][0]["message"]["content"] = '{"city": "Bergen"}'
    with Server(says(completion)) as server:
        called = ask(server, GPT, response_format=given)
    assert called.output["parsed"] == BERGEN
    assert sent(server)["response_format"] == expected


@pytest.mark.parametrize("given", [CLOSED, WRAPPED, {"type": "json_schema", "schema": CLOSED}])
@pytest.mark.parametrize("stream", [False, True])
def test_claude_is_held_to_a_schema_and_its_answer_comes_back_as_a_value(given: Any, stream: bool) -> None:
    answer = claude_message(content=[{"type": "text", "text": '{"city": "Bergen"}'}])
    with Server(sse(*claude_stream('{"city": ', '"Bergen"}')) if stream else says(answer)) as server:
        called = ask(server, CLAUDE, response_format=given, stream=stream)
    assert called.output["parsed"] == BERGEN
    assert sent(server)["output_config"] == {"format": {"type": "json_schema", "schema": CLOSED}}


@pytest.mark.parametrize(
    ("text", "finish", "said"),
    [
        ('{"city": 5}', "stop", "/city"),
        ('{"city": {"$secret": "X"}}', "stop", "/city"),
        ("{}", "stop", "/city: is required"),
        ('{"city": "Ber', "length", "cut off at max_tokens"),
        ("Bergen", "stop", "the answer"),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for_is_invalid_and_charged(text: str, finish: str, said: str) -> None:
    message = {"role": "assistant", "content": text}
    with Server(says(gpt_completion(choices=[{"index": 0, "message": message, "finish_reason": finish}]))) as server:
        called = ask(server, GPT, response_format=SCHEMA)
    assert called.code == "ERR_LLM_INVALID_RESPONSE"
    assert said in str(called.error)
    assert called.report.usage == {"input_tokens": 11, "output_tokens": 2}


def test_a_model_that_asks_for_a_tool_first_has_no_value_yet() -> None:
    with Server(says(with_calls(ASKED))) as server:
        called = ask(server, GPT, response_format=SCHEMA, tools=[OPENAI_TOOL])
    assert (called.code, called.output["parsed"]) == ("OK", None)


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (GPT, {"type": "json_schema"}),
        (GPT, {"type": "json_schema", "json_schema": {"name": "x"}}),
        (GPT, {"type": "objekt"}),
        (CLAUDE, {"type": "json_object"}),
    ],
)
def test_a_schema_that_is_none_is_refused_before_anything_is_sent(model: str, given: Any) -> None:
    with Server(says({})) as server:
        called = ask(server, model, response_format=given)
    assert called.code == "ERR_VALIDATION_FAILED"
    assert server.requests == []


# --- the stub, the first version, the reservation ---------------------------------------------------------------


def test_the_stub_can_be_scripted_to_ask_for_tools() -> None:
    script = [{"text": "Let me see.", "tool_calls": [{"name": "weather", "arguments": BERGEN}]}, "It rains."]
    first = call(llm_invoke, {"prompt": "Bergen?", "tools": [OPENAI_TOOL]}, services={"llm_stub": script}).output
    assert (first["text"], first["finish_reason"]) == ("Let me see.", "tool_calls")
    [asked] = first["tool_calls"]
    assert (asked["name"], asked["arguments"]) == ("weather", BERGEN)
    assert first["message"]["tool_calls"][0]["id"] == asked["id"]
    messages = [
        {"role": "user", "content": "Bergen?"},
        first["message"],
        {"role": "tool", "tool_call_id": asked["id"], "content": "rain"},
    ]
    second = call(llm_invoke, {"messages": messages}, services={"llm_stub": script}).output
    assert (second["text"], second["tool_calls"]) == ("It rains.", [])
    over = call(llm_invoke, {"messages": [*messages, second["message"]]}, services={"llm_stub": script})
    assert over.code == "ERR_LLM_INVALID_RESPONSE"


def test_the_first_version_is_the_one_that_plans_have_pinned() -> None:
    from reenact.builtin.llm.llm_invoke_1_0 import llm_invoke as first

    assert first.is_defined_as("f306ab473ac747270c8413779bec5da03272ee54337799bf7e99aa2b9db48322")
    called = call(first, {"messages": [{"role": "user", "content": "Hi"}]})
    assert called.output.keys() == {"text", "model", "finish_reason", "usage", "request_id"}
    assert called.output["text"] == call(llm_invoke, {"prompt": "Hi"}).output["text"]


def test_a_reservation_counts_tools_and_an_image_whatever_its_size() -> None:
    prices = {"models": {"m": {"input": "1", "output": "0"}}, "version": "mine"}

    def reserved(url: str, **more: Any) -> int:
        part = {"type": "image_url", "image_url": {"url": url}}
        return llm_invoke.estimate({"model": "m", "messages": [{"role": "user", "content": [part]}], **more}, prices)

    small = reserved("data:image/png;base64,aa")
    assert small == reserved("data:image/png;base64," + "a" * 1_000_000) > 5_000
    assert reserved("data:image/png;base64,aa", tools=[OPENAI_TOOL]) > small
