"""Mocked HTTP for tests: the built-in skills' own transport answers from rules, and nothing leaves the process."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from unittest.mock import patch

from reenact.errors import SkillError
from reenact.values.canonical import canonicalize

if TYPE_CHECKING:
    import httpx2

Trouble = Literal["timeout", "refused", "dns", "tls"]
_ALWAYS = re.compile(r"always_(\d{3})")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a mocked server answers. A body that is no text or bytes is sent as JSON."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Reply | int | Trouble | Callable[["httpx2.Request"], "Reply | int | Trouble"]


@dataclass
class MockedHttp:
    """What was asked for, in order: (method, URL)."""

    calls: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def mock_http(
    routes: Mapping[str, Answer | Sequence[Answer]] | None = None,
    *,
    always: Answer | None = None,
    replies: Sequence[Answer] = (),
    **flags: bool,
) -> Iterator[MockedHttp]:
    """While the block lasts, every HTTP request of a built-in skill is answered from here.

    `always_503=True`, or any other status, answers everything so; `always="timeout"` (or refused, dns, tls) fails so.
    `replies` are given one after the other, the last one again and again. `routes` maps `"GET https://host/path"`, or a
    URL alone, to an answer or a list of them. A request that nothing answers fails as a blocked host.
    """
    answers = Answers(dict(routes or {}), list(replies), always if always is not None else status_of(flags))
    mocked = MockedHttp()

    def transport(*_: object) -> httpx2.AsyncBaseTransport:
        return make_transport(answers, mocked)

    with patch("reenact.builtin.net.transport._guarded_transport", transport):
        yield mocked


def status_of(flags: Mapping[str, bool]) -> int | None:
    for name, wanted in flags.items():
        match = _ALWAYS.fullmatch(name)
        if match is None:
            raise TypeError(f"mock_http() got an unexpected keyword argument {name!r}")
        if wanted:
            return int(match[1])
    return None


@dataclass
class Answers:
    """Rules, and how often each list of replies was used."""

    routes: dict[str, Answer | Sequence[Answer]]
    replies: list[Answer]
    always: Answer | None
    used: dict[str, int] = field(default_factory=dict)

    def next(self, method: str, url: str) -> Answer:
        for route in (f"{method} {url}", url):
            if route in self.routes:
                found = self.routes[route]
                return self.in_turn(route, found) if isinstance(found, list | tuple) else found  # type: ignore[return-value]
        if self.replies:
            return self.in_turn("", self.replies)
        if self.always is not None:
            return self.always
        raise SkillError.of("ERR_BLOCKED_HOST", f"no mocked answer for {method} {url}")

    def in_turn(self, route: str, answers: Sequence[Answer]) -> Answer:
        number = self.used.get(route, 0)
        self.used[route] = number + 1
        return answers[min(number, len(answers) - 1)]


def make_transport(answers: Answers, mocked: MockedHttp) -> httpx2.AsyncBaseTransport:
    import httpx2

    class MockTransport(httpx2.AsyncBaseTransport):
        """Tells of the first byte as the real one does, so that side effects are the same."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            url = str(request.url)
            mocked.calls.append((request.method, url))
            answer = answers.next(request.method, url)
            if callable(answer):
                answer = answer(request)
            if answer in ("refused", "dns", "tls"):
                raise trouble(answer)
            trace = request.extensions.get("trace")
            if trace is not None:
                await trace("http11.send_request_headers.started", {})
            if answer == "timeout":
                raise httpx2.ReadTimeout("mocked", request=request)
            reply = Reply(status=answer) if isinstance(answer, int) else answer
            assert isinstance(reply, Reply), f"{answer!r} is no answer"
            stream = httpx2.ByteStream(content_of(reply))
            return httpx2.Response(reply.status, headers=headers_of(reply), stream=stream, request=request)

    return MockTransport()


def trouble(kind: Trouble) -> Exception:
    """The library's error, caused as the real network causes it."""
    import httpx2

    causes: dict[str, OSError] = {
        "refused": ConnectionRefusedError(111, "mocked"),
        "dns": socket.gaierror(socket.EAI_NONAME, "mocked"),
        "tls": ssl.SSLCertVerificationError("mocked"),
    }
    error = httpx2.ConnectError("mocked")
    error.__cause__ = causes[kind]
    return error


def headers_of(reply: Reply) -> dict[str, str]:
    plain = reply.body is None or isinstance(reply.body, str | bytes)
    return {**({} if plain else {"content-type": "application/json"}), **reply.headers}


def content_of(reply: Reply) -> bytes:
    if reply.body is None:
        return b""
    if isinstance(reply.body, bytes):
        return reply.body
    return reply.body.encode() if isinstance(reply.body, str) else canonicalize(reply.body)
