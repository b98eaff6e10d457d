"""Targets that hear servers and models: packed answers, streams of events, completions, replies of a mail server."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import zlib
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import httpx2

from reenact.builtin.llm import anthropic_adapter, openai_adapter
from reenact.builtin.llm.messages import ModelReply, ModelRequest
from reenact.builtin.llm.openai_stream import StreamedCompletion
from reenact.builtin.llm.structured import StructuredOutput
from reenact.builtin.llm.translation import as_anthropic, as_openai, messages_and_tools, texts_of
from reenact.builtin.net.body import MAX_ANSWER_BYTES, BoundedAnswer, read_body
from reenact.builtin.net.smtp import PinnedSmtp
from reenact.errors import ReenactError, SkillError
from reenact.planners.manifest import Manifest
from reenact.planners.model import ModelPlanner
from reenact.skills.declare import skill
from reenact.skills.registry import Registry
from reenact.values.canonical import canonicalize, parse_json

Document = dict[str, Any]
HTTP_LIMIT = 100_000
MOST_LINES = 5_000
"""Lines are read one by one: many of them are much work, and no single one is."""


class Pieces(httpx2.AsyncByteStream):
    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._data), 10_000):
            yield self._data[start : start + 10_000]


def read_answer(data: bytes) -> None:
    """The first line is the content type, the second the encoding."""
    kind, _, rest = data.partition(b"\n")
    encoding, _, body = rest.partition(b"\n")
    headers = [(b"content-type", kind[:100]), (b"content-encoding", encoding[:100])]
    request = httpx2.Request("GET", "http://localhost/")

    def response() -> httpx2.Response:
        return httpx2.Response(200, headers=headers, stream=Pieces(body), request=request)

    async def collected() -> bytes:
        return b"".join([part async for part in BoundedAnswer().parts(response())])

    try:
        short = asyncio.run(read_body(response(), HTTP_LIMIT))
        assert len(short) <= HTTP_LIMIT
    finally:
        found = asyncio.run(collected())
        assert len(found) <= MAX_ANSWER_BYTES * 10
        if encoding.strip() == b"gzip" and len(body) < 50_000:
            assert found == gzip.decompress(body), "another reader unpacks something else"


def answers() -> Sequence[bytes]:
    event = b'data: {"id":"1","choices":[{"delta":{"content":"a"}}]}\n\n'
    packed = gzip.compress(event * 9, mtime=0)
    bomb = gzip.compress(bytes(3_000_000), mtime=0)
    return (
        b"application/json\n\n" + b'{"a":1}',
        b"text/event-stream\n\n" + event * 5,
        b"application/json\ngzip\n" + packed,
        b"text/event-stream\ngzip\n" + packed + packed,
        b"application/json\ndeflate\n" + zlib.compress(event),
        b"application/json\ngzip\n" + bomb * 6,
        b"text/plain\nbr\nabc",
    )


# -- models ------------------------------------------------------------------------------------------------------------


def documents_in(data: bytes) -> list[Any]:
    found = []
    for line in data.split(b"\n")[:MOST_LINES]:
        try:
            found.append(parse_json(line))
        except ReenactError:
            continue
    return found


def read_completion(data: bytes) -> None:
    """Each line is a piece of a stream; the first one, where it is whole, an answer of either provider."""
    pieces = documents_in(data)
    for piece in pieces[:1]:
        if isinstance(piece, dict):
            for read in (read_openai, read_anthropic):
                try:
                    canonicalize(read(piece).message)
                except SkillError:
                    continue
    stream = StreamedCompletion()
    for piece in pieces:
        if isinstance(piece, dict):
            stream.add(piece)
    stream.completion()


def read_openai(raw: Document) -> ModelReply:
    reply = openai_adapter._reply(raw, None)  # the border itself
    StructuredOutput({"type": "object"}).parsed(reply)
    return reply


def read_anthropic(raw: Document) -> ModelReply:
    return anthropic_adapter._reply(SimpleNamespace(model_dump=lambda **_: raw), None)


def completions() -> Sequence[bytes]:
    call = {"id": "c1", "type": "function", "function": {"name": "a", "arguments": '{"x":1}'}}
    whole = {
        "id": "1", "model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "{}", "tool_calls": [call]}}],
    }  # fmt: skip
    delta = {"index": 0, **call}
    piece = {"id": "1", "choices": [{"delta": {"content": "a", "refusal": "no", "tool_calls": [delta]}}]}
    claude = {
        "model": "m", "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 2},
        "content": [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}}],
    }  # fmt: skip
    return tuple("\n".join(map(json.dumps, each)).encode() for each in ([whole], [piece] * 4, [claude], [whole, piece]))


def translate(data: bytes) -> None:
    for message in documents_in(data):
        if isinstance(message, dict):
            request = ModelRequest(model="m", messages=(message,), tools=(message,))
            for style in ("openai", "anthropic"):
                try:
                    canonicalize(messages_and_tools(request, style)[0])
                except SkillError:
                    continue
            texts_of(message.get("content"))


def conversations() -> Sequence[bytes]:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    messages: list[Document] = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, image]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "function": {"name": "n", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "done"},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "a"}]}],
        },
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {"a": 1}}]},
    ]
    assert as_openai(as_anthropic(messages[:3]))
    return ("\n".join(map(json.dumps, messages)).encode(), *(json.dumps(message).encode() for message in messages))


@skill("talk", version="1.0.0", tool_class="read")
def talk(text: str) -> str:
    """Says it."""
    return text


MANIFEST = Manifest.of(Registry([talk]))


def read_proposal(data: bytes) -> None:
    """A planner that is told anything answers with a plan or with what is wrong with it."""
    text = data.decode("utf-8", "replace")
    planner = ModelPlanner("m", adapter="stub")
    document, problems = planner._read(text, "goal", {"agent_id": "a"}, MANIFEST)  # the border itself
    assert (document is None) == bool(problems)


def proposals() -> Sequence[bytes]:
    steps = [
        {"step_id": "a", "skill_id": "talk", "parameters": {"text": "{{a.b}}"}},
        {"step_id": "b", "skill_id": "talk"},
    ]
    text = json.dumps({"steps": steps})
    return text.encode(), f"```json\n{text}\n```".encode()


# -- mail --------------------------------------------------------------------------------------------------------------


def read_replies(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        theirs.setblocking(False)  # the socket's own interface
        theirs.send(data[:150_000]) if data else None
        theirs.close()
        server = PinnedSmtp("", 0, [], lambda: 2.0, None)
        server.sock = ours
        for _ in range(5):
            code, said = server.getreply()
            assert -100 < code < 1000
            assert len(said) <= 65_536
        server.ehlo("a")


def replies() -> Sequence[bytes]:
    greeting = b"220 here\r\n"
    extensions = b"250-host\r\n250-SIZE 1000\r\n250-AUTH PLAIN LOGIN\r\n250 STARTTLS\r\n"
    return greeting + extensions, extensions * 6, b"250-" * 100, b"550 no\r\n421-a\r\n421 b\r\n", b"x" * 9000
