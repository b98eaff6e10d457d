"""llm_invoke: the real SDKs against a server on loopback that speaks their wire formats."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from tests.builtin.models import (
    CLAUDE,
    GPT,
    KEY,
    USAGE_CHUNK,
    ask,
    chunk,
    claude_error,
    claude_message,
    claude_stream,
    gpt_completion,
    gpt_error,
    says,
    sse,
)
from tests.builtin.servers import Server

# The SDK warns of models that will be retired; which ones these are changes with its releases.
pytestmark = pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")


@pytest.fixture(scope="module", autouse=True)
def sdks() -> None:
    """Imported before any clock runs: on a busy machine that alone takes seconds."""
    importlib.import_module("anthropic")
    importlib.import_module("openai")


# --- Anthropic --------------------------------------------------------------------------------------------------


def test_claude_is_asked_and_everything_it_says_is_reported() -> None:
    with Server(says(claude_message(), request_id="req_011")) as server:
        called = ask(server, CLAUDE, system_prompt="Be brief.", temperature=0.5, max_tokens=77, stop_sequences=["END"])
    assert called.code == "OK"
    assert called.output == {
        "text": "Hello there.",
        "tool_calls": [],
        "parsed": None,
        "message": {"role": "assistant", "content": claude_message()["content"]},
        "model": CLAUDE,
        "finish_reason": "end_turn",
        "usage": {"input_tokens": 1000, "output_tokens": 500},
        "request_id": "req_011",
    }
    report = called.report
    assert report.side_effects == [("llm_request", f"anthropic/{CLAUDE}")]
    assert (report.request_id, report.finish_reason, report.http_status) == ("req_011", "end_turn", 200)
    assert (report.usage, report.model) == ({"input_tokens": 1000, "output_tokens": 500}, CLAUDE)
    assert report.raw_response["id"] == "msg_1"
    request = server.requests[0]
    assert (request.method, request.target) == ("POST", "/v1/messages")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    sent = json.loads(request.body)
    assert sent == {
        "model": CLAUDE,
        "max_tokens": 77,
        "system": "Be brief.",
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "messages": [{"role": "user", "content": "Hi"}],
    }


def test_messages_keep_their_roles_and_system_messages_become_the_system_prompt() -> None:
    conversation = [
        {"role": "system", "content": "Second."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    with Server(says(claude_message())) as server:
        ask(server, CLAUDE, prompt=None, messages=conversation, system_prompt="First.")
    sent = json.loads(server.requests[0].body)
    assert sent["system"] == "First.\n\nSecond."
    assert [message["content"] for message in sent["messages"]] == ["a", "b", "c"]


def test_cached_input_counts_as_input() -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100}
    with Server(says(claude_message(usage=usage))) as server:
        assert ask(server, CLAUDE).report.usage == {"input_tokens": 111, "output_tokens": 2}


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, claude_error("invalid_request_error"), "ERR_HTTP_400"),
        (401, claude_error("authentication_error"), "ERR_LLM_AUTH_FAILURE"),
        (403, claude_error("permission_error"), "ERR_LLM_AUTH_FAILURE"),
        (404, claude_error("not_found_error"), "ERR_LLM_INVALID_MODEL"),
        (413, claude_error("request_too_large"), "ERR_LLM_CONTEXT_LENGTH"),
        (402, claude_error("billing_error"), "ERR_QUOTA_EXCEEDED"),
        (429, claude_error("rate_limit_error"), "ERR_LLM_RATE_LIMIT"),
        (500, claude_error("api_error"), "ERR_LLM_API_ERROR"),
        (529, claude_error("overloaded_error"), "ERR_LLM_API_ERROR"),
        (503, "no json at all", "ERR_LLM_API_ERROR"),
    ],
)
def test_claudes_errors_have_their_codes_and_are_tried_once(status: int, body: Any, code: str) -> None:
    with Server(says(body, status, request_id="req_e", retry_after="7")) as server:
        called = ask(server, CLAUDE)
    assert called.code == code
    assert (called.report.http_status, called.report.request_id) == (status, "req_e")
    assert called.report.retry_after_ms == 7000
    assert len(server.requests) == 1
    assert KEY not in str(called.error)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("refusal", "ERR_LLM_CONTENT_FILTER"),
        ("model_context_window_exceeded", "ERR_LLM_CONTEXT_LENGTH"),
        ("max_tokens", "OK"),
        ("stop_sequence", "OK"),
    ],
)
def test_why_claude_stopped_decides_and_the_tokens_are_charged_all_the_same(reason: str, code: str) -> None:
    with Server(says(claude_message(stop_reason=reason))) as server:
        called = ask(server, CLAUDE)
    assert called.code == code
    assert called.report.finish_reason == reason
    assert called.report.usage == {"input_tokens": 1000, "output_tokens": 500}


def test_a_streamed_answer_of_claude_is_recorded_whole() -> None:
    with Server(sse(*claude_stream("Hel", "lo"))) as server:
        called = ask(server, CLAUDE, stream=True)
    assert called.output["text"] == "Hello"
    assert called.output["usage"] == {"input_tokens": 9, "output_tokens": 15}
    assert called.report.request_id == "req_s"
    assert called.report.raw_response["content"][0]["text"] == "Hello"
    assert json.loads(server.requests[0].body)["stream"] is True


def test_an_error_in_the_middle_of_claudes_stream_is_an_error() -> None:
    events = [*claude_stream("Hel")[:4], ("error", claude_error("overloaded_error"))]
    with Server(sse(*events)) as server:
        assert ask(server, CLAUDE, stream=True).code == "ERR_LLM_API_ERROR"


def test_a_stream_that_is_cut_is_an_error() -> None:
    with Server(sse(*claude_stream("Hel")[:4], end=False)) as server:
        called = ask(server, CLAUDE, stream=True)
    assert called.code == "ERR_CONNECTION_REFUSED"
    assert called.report.side_effects == [("llm_request", f"anthropic/{CLAUDE}")]


# --- OpenAI and those who speak like it -------------------------------------------------------------------------


def test_gpt_is_asked_and_everything_it_says_is_reported() -> None:
    with Server(says(gpt_completion(), x_request_id="req_o")) as server:
        called = ask(
            server, GPT, system_prompt="Be brief.", temperature=0, seed=7, max_tokens=50, stop_sequences=["END"]
        )
    assert called.code == "OK"
    assert called.output == {
        "text": "Hello.",
        "tool_calls": [],
        "parsed": None,
        "message": {"role": "assistant", "content": "Hello."},
        "model": "gpt-4o-2024-08-06",
        "finish_reason": "stop",
        "usage": {"input_tokens": 11, "output_tokens": 2},
        "request_id": "req_o",
    }
    assert called.report.side_effects == [("llm_request", f"openai/{GPT}")]
    assert called.report.model == GPT  # the one whose price the plan pinned
    request = server.requests[0]
    assert (request.target, request.headers["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert json.loads(request.body) == {
        "model": GPT,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "max_tokens": 50,
        "temperature": 0,
        "seed": 7,
        "stop": ["END"],
    }


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, gpt_error("context_length_exceeded"), "ERR_LLM_CONTEXT_LENGTH"),
        (400, gpt_error("content_filter"), "ERR_LLM_CONTENT_FILTER"),
        (400, gpt_error("content_policy_violation"), "ERR_LLM_CONTENT_FILTER"),
        (400, gpt_error(None), "ERR_HTTP_400"),
        (401, gpt_error("invalid_api_key"), "ERR_LLM_AUTH_FAILURE"),
        (404, gpt_error("model_not_found"), "ERR_LLM_INVALID_MODEL"),
        (422, gpt_error(None), "ERR_HTTP_4XX"),
        (429, gpt_error("rate_limit_exceeded"), "ERR_LLM_RATE_LIMIT"),
        (429, gpt_error("insufficient_quota"), "ERR_QUOTA_EXCEEDED"),
        (500, gpt_error(None, "server_error"), "ERR_LLM_API_ERROR"),
        (503, gpt_error(None, "server_error"), "ERR_LLM_API_ERROR"),
    ],
)
def test_openais_errors_have_their_codes_and_are_tried_once(status: int, body: Any, code: str) -> None:
    with Server(says(body, status, x_request_id="req_e", retry_after_ms="1250", retry_after="2")) as server:
        called = ask(server, GPT)
    assert called.code == code
    assert (called.report.http_status, called.report.request_id) == (status, "req_e")
    assert called.report.retry_after_ms == 1250
    assert called.report.raw_response["error"]["code"] == body["error"]["code"]
    assert len(server.requests) == 1


def test_a_filtered_answer_of_gpt_is_an_error() -> None:
    filtered = gpt_completion()
    filtered["choices"][0]["finish_reason"] = "content_filter"
    refused = gpt_completion()
    refused["choices"][0]["message"] = {"role": "assistant", "content": None, "refusal": "I cannot."}
    for completion in (filtered, refused):
        with Server(says(completion)) as server:
            called = ask(server, GPT)
        assert called.code == "ERR_LLM_CONTENT_FILTER"
        assert called.report.usage == {"input_tokens": 11, "output_tokens": 2}


@pytest.mark.parametrize("body", [{}, {"choices": []}, [], "text", {"choices": [{}], "model": "m"}, {"choices": None}])
@pytest.mark.parametrize("model", [GPT, CLAUDE])
def test_an_answer_of_the_wrong_form_is_invalid(body: Any, model: str) -> None:
    with Server(says(body)) as server:
        assert ask(server, model).code == "ERR_LLM_INVALID_RESPONSE"


def test_a_compatible_server_without_usage_and_request_id_is_fine() -> None:
    completion = gpt_completion()
    del completion["usage"]
    with Server(says(completion)) as server:
        called = ask(server, "llama3.1:8b", adapter="openai-compatible")
    assert called.code == "OK"
    assert called.report.usage is None
    assert called.output["usage"] == {"input_tokens": None, "output_tokens": None}
    assert called.output["request_id"] == "chatcmpl-1"


def test_a_streamed_answer_of_gpt_is_recorded_whole() -> None:
    events = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        USAGE_CHUNK,
        (None, "[DONE]"),
    ]
    with Server(sse(*events)) as server:
        called = ask(server, GPT, stream=True)
    assert called.output["text"] == "Hello"
    assert called.output["usage"] == {"input_tokens": 3, "output_tokens": 4}
    assert called.report.raw_response["choices"][0]["message"]["content"] == "Hello"
    assert called.report.request_id == "req_s"
    assert json.loads(server.requests[0].body)["stream_options"] == {"include_usage": True}


def test_a_stream_of_gpt_that_ends_too_early_keeps_what_came() -> None:
    with Server(sse(chunk({"content": "Hel"}), (None, "[DONE]"))) as server:
        called = ask(server, GPT, stream=True)
    assert called.code == "ERR_LLM_API_ERROR"
    assert called.report.raw_response == {"partial": "Hel"}
