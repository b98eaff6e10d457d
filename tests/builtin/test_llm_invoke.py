"""llm_invoke: the real SDKs against a server on loopback that speaks their wire formats."""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

import pytest

from reenact.builtin.limiter import Limiter
from reenact.builtin.llm.adapters import adapter_for
from reenact.builtin.llm.messages import ModelRequest
from reenact.builtin.llm_invoke import llm_invoke
from reenact.errors import SkillError, UnknownPrice
from reenact.policy.cost import DEFAULT_PRICES, PICODOLLARS_PER_CENT
from tests.builtin.calling import Called, call
from tests.builtin.servers import Behaviour, Request, Server, answer, drip, reset_half_way, silence, unused_port

# The SDK warns of models that will be retired; which ones these are changes with its releases.
pytestmark = pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")

JSON = {"content-type": "application/json"}
CLAUDE = "claude-sonnet-4-20250514"
GPT = "gpt-4o"
KEY = "sk-test-planted-key"


@pytest.fixture(scope="module", autouse=True)
def sdks() -> None:
    """Imported before any clock runs: on a busy machine that alone takes seconds."""
    importlib.import_module("anthropic")
    importlib.import_module("openai")


def claude_message(**changes: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": CLAUDE,
        "content": [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1000, "output_tokens": 500},
        **changes,
    }


def gpt_completion(**changes: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1735689600,
        "model": "gpt-4o-2024-08-06",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13},
        **changes,
    }


def says(value: Any, status: int = 200, **headers: str) -> Behaviour:
    fields = {name.replace("_", "-"): text for name, text in headers.items()}
    return answer(status, json.dumps(value).encode(), headers={**JSON, **fields})


def claude_error(kind: str, message: str = "some text") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_e"}


def gpt_error(code: str | None, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": "some text", "type": kind, "param": None, "code": code}}


def ask(server: Server, model: str, *, services: dict[str, Any] | None = None, **parameters: Any) -> Called:
    base = server.url if model.startswith("claude") else f"{server.url}/v1"
    return call(
        llm_invoke,
        {"prompt": "Hi", "model": model, "base_url": base, "api_key": KEY, **parameters},
        context={"allow_hosts": [server.name]},
        services=services or {},
    )


# --- Anthropic --------------------------------------------------------------------------------------------------


def test_claude_is_asked_and_everything_it_says_is_reported() -> None:
    with Server(says(claude_message(), request_id="req_011")) as server:
        called = ask(server, CLAUDE, system_prompt="Be brief.", temperature=0.5, max_tokens=77, stop_sequences=["END"])
    assert called.code == "OK"
    assert called.output == {
        "text": "Hello there.",
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


def sse(*events: tuple[str | None, Any], end: bool = True) -> Behaviour:
    """A stream of server-sent events; without `end` the connection is cut after the last one."""
    lines = [
        (f"event: {name}\n" if name else "") + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
        for name, data in events
    ]

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
            b"request-id: req_s\r\nx-request-id: req_s\r\n\r\n"
        )
        for line in lines:
            data = line.encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
        if end:
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    return behave


def claude_stream(*texts: str) -> list[tuple[str | None, Any]]:
    start = claude_message(content=[], stop_reason=None, usage={"input_tokens": 9, "output_tokens": 1})
    block = {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": text} for text in texts]
    return [
        ("message_start", {"type": "message_start", "message": start}),
        ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}),
        ("ping", {"type": "ping"}),
        *(("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}) for delta in deltas),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 15},
            },
        ),
        ("message_stop", {"type": "message_stop"}),
    ]


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


def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[None, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return None, {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x", "choices": [choice]}


USAGE_CHUNK: tuple[None, Any] = (
    None,
    {
        "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x", "choices": [],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    },
)  # fmt: skip


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


# --- underneath -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_the_network_fails_in_its_usual_ways(model: str) -> None:
    base = {"prompt": "Hi", "model": model, "api_key": KEY}
    port = unused_port()
    refused = call(
        llm_invoke, {**base, "base_url": f"http://127.0.0.1:{port}"}, context={"allow_hosts": [f"127.0.0.1:{port}"]}
    )
    assert refused.code == "ERR_CONNECTION_REFUSED"
    assert refused.report.side_effects == []
    for behaviour, limit, code in (
        (silence, 300, "ERR_HTTP_TIMEOUT"),
        (drip, 300, "ERR_HTTP_TIMEOUT"),
        (reset_half_way, 30_000, "ERR_CONNECTION_REFUSED"),
    ):
        with Server(behaviour) as server:
            called = call(
                llm_invoke, {**base, "base_url": server.url}, context={"allow_hosts": [server.name]}, timeout_ms=limit
            )
        assert called.code == code


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_a_server_that_the_plan_did_not_allow_is_not_reached(model: str) -> None:
    with Server(says({})) as server:
        called = call(llm_invoke, {"prompt": "Hi", "model": model, "base_url": server.url, "api_key": KEY})
    assert called.code == "ERR_BLOCKED_HOST"
    assert (server.requests, called.report.side_effects) == ([], [])


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_a_redirect_is_not_followed_with_the_key(model: str) -> None:
    with Server(says({})) as other, Server(answer(307, headers={"location": other.url})) as server:
        called = ask(server, model)
    assert called.code != "OK"
    assert other.requests == []


@pytest.mark.parametrize(("model", "variable"), [(CLAUDE, "ANTHROPIC"), (GPT, "OPENAI")])
def test_the_machines_own_credentials_do_not_go_to_a_server_that_a_plan_names(
    model: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_KEY", "AUTH_TOKEN", "ORG_ID", "PROJECT_ID", "ADMIN_KEY"):
        monkeypatch.setenv(f"{variable}_{name}", "planted-machine-secret")
    monkeypatch.setenv(f"{variable}_CUSTOM_HEADERS", "X-Corporate: planted-machine-secret")
    with Server(says(gpt_completion() if model == GPT else claude_message())) as server:
        base = server.url if model == CLAUDE else f"{server.url}/v1"
        parameters = {"prompt": "Hi", "model": model, "base_url": base}
        assert call(llm_invoke, parameters, context={"allow_hosts": [server.name]}).code == "OK"
    assert "planted-machine-secret" not in str(server.requests)


@pytest.mark.parametrize(("model", "variable"), [(CLAUDE, "ANTHROPIC_API_KEY"), (GPT, "OPENAI_API_KEY")])
def test_without_a_key_nothing_is_sent_and_the_way_to_give_one_is_said(
    model: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    called = call(llm_invoke, {"prompt": "Hi", "model": model})
    assert called.code == "ERR_LLM_AUTH_FAILURE"
    assert variable in str(called.error)
    assert called.report.side_effects == []


def test_limits_per_skill_hold_for_models_too() -> None:
    with Server(says(gpt_completion())) as server:
        context = {
            "allow_hosts": [server.name],
            "rate_limits": {"skills": {"llm_invoke": {"per_second": 0.001, "burst": 1}}},
        }
        parameters = {"prompt": "Hi", "model": GPT, "base_url": f"{server.url}/v1", "api_key": KEY}
        services = {"limiter": Limiter()}
        codes = [call(llm_invoke, parameters, context=context, services=services).code for _ in range(2)]
    assert codes == ["OK", "ERR_RATE_LIMIT_INTERNAL"]


# --- the stub, the choice of adapter, and what is asked wrongly -------------------------------------------------


def test_the_stub_says_the_same_to_the_same_question() -> None:
    first, second = (call(llm_invoke, {"prompt": "What is up?"}) for _ in range(2))
    assert first.output == second.output
    assert first.output["text"].endswith("What is up?")
    assert first.output["text"] != call(llm_invoke, {"prompt": "What is up?", "seed": 1}).output["text"]
    assert first.report.side_effects == [("llm_request", "stub/stub")]
    assert first.report.usage is not None
    assert first.report.request_id.startswith("stub-")


def test_the_stub_may_be_lent_a_voice_and_stands_in_for_any_model() -> None:
    def voice(request: ModelRequest) -> str:
        return f"{request.model} heard {len(request.messages)}"

    called = call(llm_invoke, {"prompt": "x", "adapter": "stub", "model": CLAUDE}, services={"llm_stub": voice})
    assert called.output["text"] == f"{CLAUDE} heard 1"
    assert called.report.model == CLAUDE


@pytest.mark.parametrize(
    ("name", "model", "provider"),
    [
        (None, "stub", "stub"),
        (None, "claude-opus-4-20250514", "anthropic"),
        (None, "gpt-4.1", "openai"),
        ("openai-compatible", "claude-like", "openai"),
        ("stub", "gpt-4.1", "stub"),
    ],
)
def test_the_adapter_follows_from_the_model_unless_it_is_named(name: str | None, model: str, provider: str) -> None:
    assert adapter_for(name, model).provider == provider


def test_a_provider_cannot_be_asked_for_the_stub() -> None:
    with pytest.raises(SkillError) as caught:
        adapter_for("openai", "stub")
    assert caught.value.code == "ERR_LLM_INVALID_MODEL"


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"prompt": "x", "messages": [{"role": "user", "content": "x"}]},
        {"messages": []},
        {"messages": [{"role": "system", "content": "x"}]},
        {"prompt": "x", "model": CLAUDE, "seed": 1, "api_key": KEY},
    ],
)
def test_a_question_that_is_none_is_refused(parameters: dict[str, Any]) -> None:
    called = call(llm_invoke, parameters)
    assert called.code == "ERR_VALIDATION_FAILED"
    assert called.report.side_effects == []


def test_the_request_never_shows_its_key() -> None:
    request = ModelRequest(model="m", messages=(), api_key=KEY, base_url="http://x.example")
    assert KEY not in repr(request)


def test_a_reservation_covers_the_longest_answer_at_the_pinned_price() -> None:
    parameters = {"prompt": "x" * 300, "model": CLAUDE, "max_tokens": 1000}
    exact = llm_invoke.estimate(parameters, DEFAULT_PRICES)
    price = DEFAULT_PRICES.price(CLAUDE)
    assert exact == (100 + 8) * price.input + 1000 * price.output
    assert llm_invoke.estimate(parameters, DEFAULT_PRICES.to_dict()) == exact
    assert exact > PICODOLLARS_PER_CENT
    default = llm_invoke.estimate({"prompt": "x" * 300, "model": CLAUDE}, DEFAULT_PRICES)
    assert default == 108 * price.input + 1024 * price.output


def test_an_unknown_model_has_no_price_unless_the_plan_gives_one() -> None:
    parameters = {"prompt": "x", "model": "mystery-1"}
    with pytest.raises(UnknownPrice, match="mystery-1"):
        llm_invoke.estimate(parameters, DEFAULT_PRICES)
    given = DEFAULT_PRICES.extended({"models": {"mystery-1": {"input": "5", "output": "7"}}, "version": "mine"})
    assert llm_invoke.estimate(parameters, given) == 9 * 5 + 1024 * 7
    assert llm_invoke.estimate({"prompt": "x"}, DEFAULT_PRICES) == 0
