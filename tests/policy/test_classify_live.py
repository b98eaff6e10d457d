"""Codes of failures that really happen, on loopback, through the HTTP client and the SDKs of model providers."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic
import httpx2
import openai
import pytest
import trustme

from reenact.policy.classify import facts_of, map_exception_to_code


class Answer(BaseHTTPRequestHandler):
    """Answers /status/N with N, hangs on /hang until the test is over, and hangs up on /cut."""

    released = threading.Event()

    def do_GET(self) -> None:
        if "/hang" in self.path:
            self.released.wait(30)
        if "/hang" in self.path or "/cut" in self.path:
            self.close_connection = True
            return
        status = int(self.path.split("/status/")[1].split("/")[0])
        body = json.dumps({"type": "error", "error": {"type": "made_up", "message": "timed out 503 refused"}}).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as http:
        http.daemon_threads = True
        Answer.released.clear()
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        Answer.released.set()
        http.shutdown()


@pytest.fixture(scope="module")
def untrusted() -> Iterator[str]:
    """A server whose certificate nobody trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as http:
        http.socket = context.wrap_socket(http.socket, server_side=True)
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{http.server_port}"
        http.shutdown()


@pytest.fixture
def closed() -> str:
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def no_names(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address whose name the real resolver refuses, without asking the network."""
    resolve = socket.getaddrinfo

    def numeric_only(host: str, port: object, *args: object, **kwargs: object) -> object:
        return resolve(host, port, flags=socket.AI_NUMERICHOST)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", numeric_only)
    return "http://nowhere.invalid"


def fetch(url: str, *, in_async: bool) -> BaseException:
    async def fetch_async() -> None:
        async with httpx2.AsyncClient(timeout=0.2, trust_env=False) as client:
            (await client.get(url)).raise_for_status()

    def fetch_sync() -> None:
        with httpx2.Client(timeout=0.2, trust_env=False) as client:
            client.get(url).raise_for_status()

    with pytest.raises(Exception) as caught:
        asyncio.run(fetch_async()) if in_async else fetch_sync()
    return caught.value


both_ways = pytest.mark.parametrize("in_async", [False, True], ids=["sync", "async"])


@both_ways
def test_a_refused_connection(closed: str, in_async: bool) -> None:
    assert map_exception_to_code(fetch(closed, in_async=in_async)) == "ERR_CONNECTION_REFUSED"


@both_ways
def test_a_name_that_cannot_be_resolved(no_names: str, in_async: bool) -> None:
    assert map_exception_to_code(fetch(no_names, in_async=in_async)) == "ERR_DNS_FAILURE"


@both_ways
def test_an_answer_that_does_not_come(server: str, in_async: bool) -> None:
    assert map_exception_to_code(fetch(f"{server}/hang", in_async=in_async)) == "ERR_HTTP_TIMEOUT"


@both_ways
def test_a_handshake_that_does_not_come(in_async: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        assert map_exception_to_code(fetch(url, in_async=in_async)) == "ERR_HTTP_TIMEOUT"


@both_ways
def test_a_connection_that_is_cut(server: str, in_async: bool) -> None:
    assert map_exception_to_code(fetch(f"{server}/cut", in_async=in_async)) == "ERR_CONNECTION_REFUSED"


@both_ways
def test_a_certificate_that_nobody_trusts(untrusted: str, in_async: bool) -> None:
    assert map_exception_to_code(fetch(f"{untrusted}/status/200", in_async=in_async)) == "ERR_SSL_ERROR"


@both_ways
@pytest.mark.parametrize(("status", "code"), [(503, "ERR_HTTP_503"), (429, "ERR_HTTP_429"), (408, "ERR_HTTP_TIMEOUT")])
def test_a_status(server: str, in_async: bool, status: int, code: str) -> None:
    error = fetch(f"{server}/status/{status}", in_async=in_async)
    assert map_exception_to_code(error) == code
    assert facts_of(error).http_status == status


def ask_openai(base_url: str) -> None:
    with openai.OpenAI(api_key="k", base_url=base_url, max_retries=0, timeout=0.3) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])


def ask_anthropic(base_url: str) -> None:
    with anthropic.Anthropic(api_key="k", base_url=base_url, max_retries=0, timeout=0.3) as client:
        client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "hi"}])


both_sdks = pytest.mark.parametrize("ask", [ask_openai, ask_anthropic], ids=["openai", "anthropic"])


@both_sdks
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "ERR_HTTP_400"),
        (401, "ERR_LLM_AUTH_FAILURE"),
        (403, "ERR_LLM_AUTH_FAILURE"),
        (404, "ERR_LLM_INVALID_MODEL"),
        (408, "ERR_HTTP_TIMEOUT"),
        (409, "ERR_HTTP_4XX"),
        (413, "ERR_HTTP_4XX"),
        (422, "ERR_HTTP_4XX"),
        (429, "ERR_LLM_RATE_LIMIT"),
        (500, "ERR_LLM_API_ERROR"),
        (503, "ERR_LLM_API_ERROR"),
        (529, "ERR_LLM_API_ERROR"),
    ],
)
def test_what_an_sdk_makes_of_a_status(server: str, ask, status: int, code: str) -> None:
    with pytest.raises(Exception) as caught:
        ask(f"{server}/status/{status}")
    assert map_exception_to_code(caught.value) == code


@both_sdks
def test_what_an_sdk_makes_of_a_network_that_fails(server: str, closed: str, ask) -> None:
    with pytest.raises(Exception) as caught:
        ask(closed)
    assert map_exception_to_code(caught.value) == "ERR_CONNECTION_REFUSED"
    with pytest.raises(Exception) as caught:
        ask(f"{server}/hang")
    assert map_exception_to_code(caught.value) == "ERR_HTTP_TIMEOUT"


@both_sdks
def test_what_an_sdk_makes_of_a_name_that_cannot_be_resolved(no_names: str, ask) -> None:
    with pytest.raises(Exception) as caught:
        ask(no_names)
    assert map_exception_to_code(caught.value) == "ERR_DNS_FAILURE"


def test_every_status_error_of_the_sdks_is_known_by_its_type_alone() -> None:
    request = httpx2.Request("POST", "http://h")
    cases = {
        openai.APIConnectionError(request=request): "ERR_LLM_API_ERROR",
        openai.APITimeoutError(request): "ERR_HTTP_TIMEOUT",
        anthropic.APIConnectionError(request=request): "ERR_LLM_API_ERROR",
        anthropic.APITimeoutError(request): "ERR_HTTP_TIMEOUT",
        anthropic.CredentialsError(): "ERR_LLM_AUTH_FAILURE",
        openai.ContentFilterFinishReasonError(): "ERR_LLM_CONTENT_FILTER",
        openai.APIError("", request, body=None): "ERR_LLM_API_ERROR",
    }
    for error, code in cases.items():
        assert map_exception_to_code(error) == code, type(error)
