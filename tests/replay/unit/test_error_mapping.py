"""Unit: error mapping. Same code for same exception, in a live run and from the facts that a recording keeps."""

from __future__ import annotations

import socket
import ssl

import pytest

from reenact import map_exception_to_code
from reenact.contracts.facts import Facts
from reenact.policy.classify import classify, facts_of

CASES = [
    (TimeoutError(), "ERR_TIMEOUT"),
    (socket.gaierror(-2, "unknown"), "ERR_DNS_FAILURE"),
    (ConnectionRefusedError(111, "refused"), "ERR_CONNECTION_REFUSED"),
    (ssl.SSLCertVerificationError("bad"), "ERR_SSL_ERROR"),
    (ValueError("anything"), "ERR_INTERNAL"),
]


@pytest.mark.parametrize(("error", "code"), CASES, ids=lambda value: getattr(value, "__name__", str(value))[:30])
def test_an_exception_has_one_code_however_often_it_is_asked(error: Exception, code: str) -> None:
    assert {map_exception_to_code(error) for _ in range(100)} == {code}
    assert classify(facts_of(error)) == code


def test_a_status_has_one_code_whatever_the_message_says() -> None:
    assert [classify(Facts(http_status=status)) for status in (503, 404, 429, 200)] == [
        "ERR_HTTP_503", "ERR_HTTP_404", "ERR_HTTP_429", "OK",
    ]  # fmt: skip
