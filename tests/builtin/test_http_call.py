"""http_call against real servers on loopback."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import zlib
from typing import Any

import pytest
import trustme

from reenact.builtin.http_call import http_call
from reenact.values.clock import FixedClock
from tests.builtin.calling import Called, call
from tests.builtin.servers import (
    Request,
    Server,
    answer,
    by_path,
    drip,
    endless,
    in_turn,
    reset_half_way,
    silence,
    unused_port,
)
from tests.skills.contexts import make_context

JSON = {"content-type": "application/json"}


def fetch(server: Server, path: str = "/", *, services: dict[str, Any] | None = None, **parameters: Any) -> Called:
    context = {"allow_hosts": [server.name]}
    return call(http_call, {"url": server.url + path, **parameters}, context=context, services=services or {})


def test_a_response_comes_back_whole() -> None:
    with Server(answer(200, b'{"a": [1, 2]}', headers={**JSON, "x-request-id": "r-1"})) as server:
        called = fetch(server, "/x", params={"q": "a b"})
    assert called.code == "OK"
    assert called.output["status"] == 200
    assert (called.output["format"], called.output["body"]) == ("json", {"a": [1, 2]})
    assert called.output["headers"]["x-request-id"] == "r-1"
    assert called.output["url"] == f"{server.url}/x?q=a+b"
    assert called.report.http_status == 200
    assert called.report.request_id == "r-1"
    assert called.report.side_effects == [("http_request", "127.0.0.1")]
    assert server.requests[0].target == "/x?q=a+b"
    assert "idempotency-key" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("data", "content_type", "expected"),
    [
        (b"", "text/plain", ("empty", None)),
        ("grüezi".encode(), "text/plain", ("text", "grüezi")),
        ("grüezi".encode("latin-1"), "text/plain; charset=ISO-8859-1", ("text", "grüezi")),
        (b"\xff\xfe\x00", "image/png", ("base64", "//4A")),
        (b"text", "text/plain; charset=no-such-charset", ("base64", "dGV4dA==")),
        (b'{"a":1,"a":2}', "application/json", ("text", '{"a":1,"a":2}')),
        (b'{"n":12345678901234567890}', "application/vnd.x+json", ("text", '{"n":12345678901234567890}')),
        (b"{", "application/json", ("text", "{")),
    ],
)
def test_a_body_is_returned_in_the_form_that_can_be_recorded_exactly(
    data: bytes, content_type: str, expected: tuple[str, Any]
) -> None:
    with Server(answer(200, data, headers={"content-type": content_type})) as server:
        called = fetch(server)
    assert (called.output["format"], called.output["body"]) == expected


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "ERR_HTTP_400"),
        (401, "ERR_HTTP_401"),
        (403, "ERR_HTTP_403"),
        (404, "ERR_HTTP_404"),
        (408, "ERR_HTTP_TIMEOUT"),
        (409, "ERR_HTTP_4XX"),
        (422, "ERR_HTTP_4XX"),
        (429, "ERR_HTTP_429"),
        (500, "ERR_HTTP_500"),
        (503, "ERR_HTTP_503"),
        (504, "ERR_HTTP_504"),
        (599, "ERR_HTTP_5XX"),
        (304, "OK"),
        (300, "ERR_UNKNOWN"),
        (302, "ERR_UNKNOWN"),
    ],
)
def test_every_status_has_its_code_and_its_body_is_kept(status: int, code: str) -> None:
    body = b"" if status == 304 else b'{"why": "no"}'
    with Server(answer(status, body, headers=JSON)) as server:
        called = fetch(server)
    assert called.code == code
    if code.startswith("ERR"):
        assert called.error is not None
        assert called.report.http_status == status
        assert called.report.raw_response["body"] == {"why": "no"}
    else:
        assert called.output["status"] == status


def test_writes_carry_the_key_and_reads_do_not() -> None:
    with Server(answer(201)) as server:
        for method in ("POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"):
            assert fetch(server, method=method).code == "OK"
        fetch(server, method="POST", idempotency_key="order-42")
        fetch(server, method="POST", headers={"Idempotency-Key": "my-own"})
    keys = [request.headers.get("idempotency-key") for request in server.requests]
    assert keys == ["key-1"] * 4 + [None] * 3 + ["order-42", "my-own"]


def test_a_write_without_any_key_is_refused() -> None:
    ctx = make_context(idempotency_key="")
    called = call(http_call, {"url": "http://127.0.0.1:1/", "method": "POST"}, ctx)
    assert called.code == "ERR_MISSING_IDEMPOTENCY_KEY"
    assert called.report.side_effects == []


def test_a_call_reads_or_writes_by_its_method() -> None:
    assert http_call.tool_class_of({"url": "x"}) == "read"
    assert http_call.tool_class_of({"url": "x", "method": "DELETE"}) == "write"


@pytest.mark.parametrize(
    ("parameters", "content_type", "body"),
    [
        ({"body": {"b": 1, "a": 2}}, "application/json", b'{"a":2,"b":1}'),
        ({"body": "plain"}, "text/plain; charset=utf-8", b"plain"),
        ({"body": "<x/>", "headers": {"Content-Type": "text/xml"}}, "text/xml", b"<x/>"),
        ({"body_base64": "AAEC"}, "application/octet-stream", b"\0\1\2"),
    ],
)
def test_bodies_are_sent_as_what_they_are(parameters: dict[str, Any], content_type: str, body: bytes) -> None:
    with Server(answer()) as server:
        assert fetch(server, method="POST", **parameters).code == "OK"
    assert server.requests[0].headers["content-type"] == content_type
    assert server.requests[0].body == body


@pytest.mark.parametrize(
    "parameters",
    [
        {"url": "ftp://example.org/"},
        {"url": "file:///etc/passwd"},
        {"url": "/relative"},
        {"url": "http://"},
        {"url": "http://[::1"},
        {"url": "http://user:password@a.example/"},
        {"url": "http://a.example/", "headers": {"Host": "other"}},
        {"url": "http://a.example/", "headers": {"Transfer-Encoding": "chunked"}},
        {"url": "http://a.example/", "headers": {"X": "a\r\nY: b"}},
        {"url": "http://a.example/", "method": "POST", "body_base64": "not base64!"},
        {"url": "http://a.example/", "method": "POST", "body_base64": "AA==", "body": "x"},
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is_touched(parameters: dict[str, Any]) -> None:
    called = call(http_call, parameters)
    assert called.code == "ERR_VALIDATION_FAILED"
    assert called.report.side_effects == []


def test_retry_after_is_reported_in_seconds_and_as_a_date() -> None:
    clock = FixedClock(start_ms=1_735_689_600_000)  # 2025-01-01T00:00:00Z
    date = "Wed, 01 Jan 2025 00:00:07 GMT"
    values = {"a": "3", "b": date, "c": "soon", "d": "Tue, 31 Dec 2024 00:00:00 GMT", "e": "99999999999999999999"}
    pages = {name: answer(429, headers={"retry-after": value}) for name, value in values.items()}
    found = {}
    with Server(by_path(**pages)) as server:
        for name in values:
            ctx = make_context(context={"allow_hosts": [server.name]}, clock=clock)
            found[name] = call(http_call, {"url": f"{server.url}/{name}"}, ctx).report.retry_after_ms
    assert found == {"a": 3000, "b": 7000, "c": None, "d": 0, "e": 86_400_000}


# --- what goes wrong underneath ---------------------------------------------------------------------------------


def test_refused() -> None:
    port = unused_port()
    called = call(http_call, {"url": f"http://127.0.0.1:{port}/"}, context={"allow_hosts": [f"127.0.0.1:{port}"]})
    assert called.code == "ERR_CONNECTION_REFUSED"
    assert called.report.side_effects == []


def test_dns_failure() -> None:
    async def no_such_name(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    called = call(http_call, {"url": "http://nowhere.example/"}, services={"resolver": no_such_name})
    assert called.code == "ERR_DNS_FAILURE"
    assert called.report.side_effects == []


def test_a_name_without_addresses_is_a_dns_failure() -> None:
    async def nothing(host: str, port: int) -> list[str]:
        return []

    assert call(http_call, {"url": "http://a.example/"}, services={"resolver": nothing}).code == "ERR_DNS_FAILURE"


def test_timeout_in_name_resolution() -> None:
    async def forever(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    called = call(http_call, {"url": "http://a.example/", "timeout_ms": 50}, services={"resolver": forever})
    assert called.code == "ERR_HTTP_TIMEOUT"


def test_timeout_in_connect() -> None:
    """A listener whose queue is full answers no handshake: the kernel drops the rest."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            waiting.append(filler)
        called = call(
            http_call,
            {"url": f"http://127.0.0.1:{port}/", "timeout_ms": 300},
            context={"allow_hosts": [f"127.0.0.1:{port}"]},
        )
        for filler in waiting:
            filler.close()
    assert called.code == "ERR_HTTP_TIMEOUT"
    assert called.report.side_effects == []


def test_timeout_in_read() -> None:
    with Server(silence) as server:
        called = fetch(server, timeout_ms=100)
    assert called.code == "ERR_HTTP_TIMEOUT"
    assert called.report.side_effects == [("http_request", "127.0.0.1")]


def test_a_slow_drip_ends_at_the_limit_of_the_whole() -> None:
    with Server(drip) as server:
        called = fetch(server, timeout_ms=250)
    assert called.code == "ERR_HTTP_TIMEOUT"


def test_the_attempts_deadline_holds_even_where_the_call_allows_more() -> None:
    with Server(silence) as server:
        ctx = make_context(context={"allow_hosts": [server.name]}, timeout_ms=100)
        assert call(http_call, {"url": server.url, "timeout_ms": 60_000}, ctx).code == "ERR_HTTP_TIMEOUT"


def test_reset_half_way() -> None:
    with Server(reset_half_way) as server:
        called = fetch(server)
    assert called.code == "ERR_CONNECTION_REFUSED"
    assert called.report.side_effects == [("http_request", "127.0.0.1")]


def test_a_content_length_that_promises_too_much() -> None:
    with Server(answer(200, b"short", length=50)) as server:
        assert fetch(server).code == "ERR_CONNECTION_REFUSED"


def test_a_response_that_is_no_http() -> None:
    async def noise(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        await writer.drain()

    with Server(noise) as server:
        assert fetch(server).code == "ERR_CONNECTION_REFUSED"


@pytest.mark.parametrize("behaviour", [endless, answer(200, b"x", length=10**12)])
def test_a_huge_body_is_refused_at_the_limit(behaviour: Any) -> None:
    with Server(behaviour) as server:
        called = fetch(server, max_bytes=200_000)
    assert called.code == "ERR_STORAGE_QUOTA_EXCEEDED"


def test_a_body_of_exactly_the_limit_passes() -> None:
    with Server(answer(200, b"x" * 1000)) as server:
        assert fetch(server, max_bytes=1000).code == "OK"
        assert fetch(server, max_bytes=999).code == "ERR_STORAGE_QUOTA_EXCEEDED"


def test_a_compressed_body_is_unpacked_and_a_bomb_is_not() -> None:
    two_members = gzip.compress(b"hello ") + gzip.compress(b"world")
    bomb = gzip.compress(b"\0" * 50_000_000)
    pages = {
        "gzip": answer(200, two_members, headers={"content-encoding": "gzip"}),
        "deflate": answer(200, zlib.compress(b"hello world"), headers={"content-encoding": "deflate"}),
        "bomb": answer(200, bomb, headers={"content-encoding": "gzip"}),
        "cut": answer(200, two_members[:-4], headers={"content-encoding": "gzip"}),
        "damaged": answer(200, b"no gzip at all", headers={"content-encoding": "gzip"}),
        "unasked": answer(200, b"x", headers={"content-encoding": "br"}),
    }
    with Server(by_path(**pages)) as server:
        assert fetch(server, "/gzip").output["body"] == "hello world"
        assert fetch(server, "/deflate").output["body"] == "hello world"
        assert fetch(server, "/bomb", max_bytes=1_000_000).code == "ERR_STORAGE_QUOTA_EXCEEDED"
        for name in ("cut", "damaged", "unasked"):
            assert fetch(server, f"/{name}").code == "ERR_DESERIALIZATION_FAILED"


# --- TLS --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


def trusting(authority: trustme.CA) -> dict[str, Any]:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return {"tls_context": context}


def test_a_certificate_that_is_trusted_for_this_name_passes(authority: trustme.CA) -> None:
    with Server(answer(200, b"ok"), tls=server_tls(authority, "127.0.0.1")) as server:
        assert fetch(server, services=trusting(authority)).output["body"] == "ok"


def test_a_bad_certificate_is_a_tls_error_and_nothing_is_sent(authority: trustme.CA) -> None:
    with Server(answer(), tls=server_tls(authority, "127.0.0.1")) as stranger:
        unknown = fetch(stranger, method="POST", body="secret")
    with Server(answer(), tls=server_tls(authority, "other.example")) as misnamed:
        wrong_name = fetch(misnamed, services=trusting(authority))
    assert (unknown.code, wrong_name.code) == ("ERR_SSL_ERROR", "ERR_SSL_ERROR")
    assert unknown.report.side_effects == []
    assert (stranger.requests, misnamed.requests) == ([], [])


def test_tls_towards_a_server_that_speaks_none_is_a_tls_error() -> None:
    with Server(answer(), greeting=b"220 plain text\r\n") as server:
        called = call(http_call, {"url": server.url.replace("http", "https")}, context={"allow_hosts": [server.name]})
    assert called.code == "ERR_SSL_ERROR"
    assert called.report.side_effects == []


# --- redirects --------------------------------------------------------------------------------------------------


def moved(status: int, location: str) -> Any:
    return answer(status, headers={"location": location})


def test_redirects_are_followed_and_counted_as_one_touch() -> None:
    with Server(by_path(a=moved(302, "/b"), b=moved(301, "c"), c=answer(200, b"here"))) as server:
        called = fetch(server, "/a")
    assert (called.output["body"], called.output["url"]) == ("here", f"{server.url}/c")
    assert called.report.side_effects == [("http_request", "127.0.0.1")]
    assert called.report.http_status == 200


def test_a_redirect_loop_ends() -> None:
    with Server(moved(302, "/again")) as server:
        called = fetch(server)
    assert called.code == "ERR_UNKNOWN"
    assert len(server.requests) == 11


def test_a_redirect_that_is_not_to_be_followed_is_the_answer() -> None:
    with Server(moved(302, "/b")) as server:
        called = fetch(server, follow_redirects=False)
    assert called.code == "OK"
    assert (called.output["status"], called.output["headers"]["location"]) == (302, "/b")


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [(303, "POST", "GET"), (302, "POST", "GET"), (301, "POST", "GET"), (307, "POST", "POST"), (308, "PUT", "PUT"),
     (302, "HEAD", "HEAD"), (303, "HEAD", "HEAD")],
)  # fmt: skip
def test_a_redirect_keeps_or_changes_the_method_as_http_says(status: int, method: str, then: str) -> None:
    with Server(in_turn(moved(status, "/there"), answer())) as server:
        fetch(server, method=method, body=None if method == "HEAD" else "content")
    first, second = server.requests
    assert (first.method, second.method) == (method, then)
    assert second.body == (b"content" if then in {"POST", "PUT"} else b"")
    if then in {"POST", "PUT"}:
        assert second.headers["idempotency-key"] == first.headers["idempotency-key"]


def test_credentials_do_not_travel_to_another_origin() -> None:
    headers = {"Authorization": "Bearer x", "X-Api-Key": "y", "Cookie": "z", "Accept": "text/plain"}
    with Server(answer()) as other, Server(moved(307, f"{other.url}/")) as server:
        called = call(
            http_call,
            {"url": server.url, "headers": headers, "method": "POST"},
            context={"allow_hosts": [server.name, other.name]},
        )
    assert called.code == "OK"
    assert server.requests[0].headers["authorization"] == "Bearer x"
    sent = other.requests[0].headers
    assert sent["accept"] == "text/plain"
    assert not {"authorization", "x-api-key", "cookie"} & set(sent)


@pytest.mark.parametrize("target", ["file:///etc/passwd", "gopher://127.0.0.1/", "javascript:alert(1)"])
def test_a_redirect_out_of_http_is_refused(target: str) -> None:
    with Server(moved(302, target)) as server:
        assert fetch(server).code == "ERR_BLOCKED_HOST"
