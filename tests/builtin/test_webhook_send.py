"""webhook_send: signed, keyed, and followed nowhere."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest

from reenact.builtin.webhook_send import sign, webhook_send
from reenact.values.clock import FixedClock
from tests.builtin.calling import Called, call
from tests.builtin.servers import Server, answer


def send(server: Server, **parameters: Any) -> Called:
    return call(
        webhook_send,
        {"url": server.url, "payload": {"b": 2, "a": 1}, **parameters},
        context={"allow_hosts": [server.name]},
        clock=FixedClock(start_ms=1_735_689_600_123),
    )


def test_a_payload_is_delivered_with_id_time_and_signature() -> None:
    secret = "whsec_" + base64.b64encode(b"0123456789abcdef").decode()
    with Server(answer(202, b"thanks")) as server:
        called = send(server, secret=secret, headers={"X-Team": "ops"})
    assert called.output == {"status": 202, "webhook_id": "key-1", "body": "thanks"}
    assert called.report.side_effects == [("webhook_sent", "127.0.0.1")]
    request = server.requests[0]
    assert (request.method, request.body) == ("POST", b'{"a":1,"b":2}')
    assert request.headers["webhook-timestamp"] == "1735689600"
    assert request.headers["webhook-id"] == request.headers["idempotency-key"] == "key-1"
    assert request.headers["x-team"] == "ops"
    expected = hmac.new(b"0123456789abcdef", b"key-1.1735689600." + request.body, hashlib.sha256).digest()
    assert request.headers["webhook-signature"] == "v1," + base64.b64encode(expected).decode()


def test_the_signature_is_that_of_the_standards_published_example() -> None:
    assert (
        sign(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            b'{"test": 2432232314}',
        )
        == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


def test_the_same_call_keeps_its_id_on_every_delivery() -> None:
    with Server(answer(503)) as server:
        assert send(server, idempotency_key="order-1").code == "ERR_HTTP_503"
        assert send(server, idempotency_key="order-1").code == "ERR_HTTP_503"
    assert [request.headers["webhook-id"] for request in server.requests] == ["order-1", "order-1"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with Server(answer()) as other, Server(answer(status, headers={"location": other.url})) as server:
        called = call(
            webhook_send, {"url": server.url, "payload": 1}, context={"allow_hosts": [server.name, other.name]}
        )
    assert called.code == "ERR_UNKNOWN"
    assert other.requests == []


def test_an_inside_address_is_refused_before_anything_is_sent() -> None:
    with Server(answer()) as server:
        called = call(webhook_send, {"url": server.url, "payload": 1})
    assert (called.code, called.report.side_effects, server.requests) == ("ERR_BLOCKED_HOST", [], [])


def test_a_secret_that_is_none_and_a_call_without_a_key_are_refused() -> None:
    with Server(answer()) as server:
        assert send(server, secret="whsec_***").code == "ERR_VALIDATION_FAILED"
        called = call(webhook_send, {"url": server.url, "payload": 1}, idempotency_key="")
        assert called.code == "ERR_MISSING_IDEMPOTENCY_KEY"
    assert server.requests == []
