"""Model servers on loopback: what they say, and how they are asked."""

from __future__ import annotations

import json
from typing import Any

from reenact.builtin.llm_invoke import llm_invoke
from tests.builtin.calling import Called, call
from tests.builtin.servers import Behaviour, Server, answer

JSON = {"content-type": "application/json"}
CLAUDE = "claude-sonnet-4-20250514"
GPT = "gpt-4o"
KEY = "sk-test-planted-key"


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
