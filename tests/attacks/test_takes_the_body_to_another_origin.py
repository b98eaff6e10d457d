"""A server that redirects gets neither body nor credentials sent elsewhere; what was reached is on record."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.builtin.email_send import email_send
from reenact.builtin.http_call import http_call
from tests.builtin.calling import call
from tests.builtin.servers import Server
from tests.builtin.test_http_call import answer, moved

SECRETS = {"Authorization": "Bearer x", "X-Api-Key": "y", "Cookie": "z"}


def post(server: Server, *others: Server, **parameters: Any) -> Any:
    given = {"url": server.url, "headers": SECRETS, "method": "POST", "body": {"iban": "DE00"}, **parameters}
    return call(http_call, given, context={"allow_hosts": [server.name, *(other.name for other in others)]})


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_body_is_not_carried_to_another_origin(status: int, method: str) -> None:
    with Server(answer()) as other, Server(moved(status, f"{other.url}/")) as server:
        called = post(server, other, method=method)
    assert called.code == "ERR_BLOCKED_HOST"
    assert "another origin" in str(called.error)
    assert other.requests == []
    assert called.report.side_effects == [("http_request", "127.0.0.1")]


def test_within_its_origin_it_is_carried() -> None:
    with Server(moved(307, "/again")) as server:
        post(server)
    assert {request.body for request in server.requests} == {b'{"iban":"DE00"}'}


def test_each_origin_that_a_redirect_touched_is_a_side_effect() -> None:
    with Server(answer()) as other, Server(moved(303, f"{other.url}/")) as server:
        called = post(server, other)
    assert called.code == "OK"
    assert other.requests[0].method == "GET"
    assert other.requests[0].body == b""
    assert not {"authorization", "x-api-key", "cookie", "idempotency-key"} & other.requests[0].headers.keys()
    assert called.report.side_effects == [("http_request", "127.0.0.1"), ("http_request", other.url)]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1\\@evil.example/", "http:\\\\evil.example/", "http://kim@127.0.0.1/", "http://kim:pw@127.0.0.1/",
        "http://@127.0.0.1/", "http://127.0.0.1\n.evil.example/", "http://127.0.0.1/\r\nHost: evil", "http://127.0.0.1\t/",
        "http://127.0.0.1%00.evil.example/", "http://ev%69l.example/", "http://a b/", "http://127.0.0.1\u202e/",
        "http://127.0.0.1\x00/", "http://127.0.0.1\x7f/",
    ],
)  # fmt: skip
def test_an_address_that_programs_read_differently_is_refused(url: str) -> None:
    called = call(http_call, {"url": url}, context={"allow_hosts": ["127.0.0.1"]})
    assert called.code == "ERR_VALIDATION_FAILED"
    assert str(called.error).startswith("url: ")
    with Server(moved(302, url.replace("\r", "").replace("\n", "\x0b").replace("\x00", "\x01"))) as server:
        called = call(http_call, {"url": server.url}, context={"allow_hosts": ["127.0.0.1"]})
    assert called.code in ("ERR_BLOCKED_HOST", "ERR_UNKNOWN", "ERR_CONNECTION_REFUSED"), called.error
    assert len(server.requests) == 1


MAIL = {"to": ["ann@example.org"], "subject": "s", "body": "b", "sender": "a@example.org", "smtp_host": "127.0.0.1"}


@pytest.mark.parametrize("field", ["to", "cc", "bcc", "reply_to", "sender"])
@pytest.mark.parametrize(
    "address",
    [
        "a,evil@x.y", "a@b.c,evil@x.y", "a@b.c;evil@x.y", "a@b.c evil@x.y", "a@b.c\nevil@x.y", "a@b.c\r\nBcc: evil@x.y",
        "Ann <evil@x.y>", "<evil@x.y>", '"a,b"@x.y', "=?utf-8?q?evil=40x.y=2C?=@x.y", "a(comment)@x.y", "group:a@x.y;",
        "@route:a@x.y", "a@b@x.y", "a@[127.0.0.1]", "a@x.y>", "ab@", "@x.y", "a@x.y\x00", "a@x.y\u202e", "a@-x.y",
    ],
)  # fmt: skip
def test_one_item_is_one_recipient(field: str, address: str) -> None:
    called = call(email_send, {**MAIL, field: [address] if field in ("to", "cc", "bcc") else address})
    assert called.code == "ERR_VALIDATION_FAILED"
    assert called.report.side_effects == []


@pytest.mark.parametrize(
    "subject",
    [
        "=?utf-8?q?a=0D=0ABcc:_evil@x.y?=", "=?utf-8?q?a=0AReply-To:_evil@x.y=0A=0Aanother_body?=",
        "hello =?utf-8?b?DQpCY2M6IGV2aWxAeC55DQo=?= there", "=?utf-8?q?a=00b?=", "a\nBcc: evil@x.y",
    ],
)  # fmt: skip
def test_a_subject_is_one_line(subject: str) -> None:
    """An encoded word stood for a line break, and the mail had headers and a text of the attacker's."""
    called = call(email_send, {**MAIL, "subject": subject})
    assert called.code == "ERR_VALIDATION_FAILED"
    assert called.report.side_effects == []
