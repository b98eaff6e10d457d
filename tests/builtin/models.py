"""Model servers on loopback: what they say, and how they are asked."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from reenact.builtin.llm_invoke import llm_invoke
from tests.builtin.calling import Called, call
from tests.builtin.servers import Behaviour, Request, Server, answer

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


def block(index: int, content: dict[str, Any], deltas: list[dict[str, Any]]) -> list[tuple[str | None, Any]]:
    return [
        ("content_block_start", {"type": "content_block_start", "index": index, "content_block": content}),
        ("ping", {"type": "ping"}),
        *(("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas),
        ("content_block_stop", {"type": "content_block_stop", "index": index}),
    ]


def claude_stream(
    *texts: str, use: dict[str, Any] | None = None, reason: str = "end_turn"
) -> list[tuple[str | None, Any]]:
    """A text in pieces and, with `use`, a tool call whose input comes in pieces of ten characters."""
    start = claude_message(content=[], stop_reason=None, usage={"input_tokens": 9, "output_tokens": 1})
    deltas = [{"type": "text_delta", "text": text} for text in texts]
    asked: list[tuple[str | None, Any]] = []
    if use is not None:
        written = json.dumps(use["input"])
        pieces = [written[n : n + 10] for n in range(0, len(written), 10)]
        asked = block(
            1, {**use, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        )
    return [
        ("message_start", {"type": "message_start", "message": start}),
        *block(0, {"type": "text", "text": ""}, deltas),
        *asked,
        (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": 15},
            },
        ),
        ("message_stop", {"type": "message_stop"}),
    ]


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
