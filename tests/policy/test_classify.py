"""From facts to codes, as a pure function of types, errnos and statuses."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import ssl
import subprocess
import urllib.error
from http.client import HTTPMessage
from itertools import pairwise

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.contracts.facts import ExceptionFact, Facts, Usage
from reenact.errors import CanonicalizationError, PlanError, SkillError, SkillNotFound
from reenact.policy.classify import classify, facts_of, map_exception_to_code
from reenact.policy.exception_rules import KNOWN_NAMES, NETWORK_RULES, OTHER_RULES
from reenact.policy.taxonomy import TAXONOMY
from reenact.values.canonical import canonicalize


def chain(*links: BaseException) -> BaseException:
    """The first, raised from the second, raised from the third, …"""
    for link, cause in pairwise(links):
        link.__cause__ = cause
    return links[0]


class MyTimeout(TimeoutError):
    pass


class MyError(Exception):
    pass


@pytest.mark.parametrize(
    ("exception", "code"),
    [
        (ssl.SSLError(), "ERR_SSL_ERROR"),
        (ssl.SSLCertVerificationError(), "ERR_SSL_ERROR"),
        (socket.gaierror(socket.EAI_NONAME, ""), "ERR_DNS_FAILURE"),
        (socket.herror(), "ERR_DNS_FAILURE"),
        (TimeoutError(), "ERR_TIMEOUT"),
        (MyTimeout(), "ERR_TIMEOUT"),
        (OSError(errno.ETIMEDOUT, ""), "ERR_TIMEOUT"),
        (subprocess.TimeoutExpired("x", 1), "ERR_TIMEOUT"),
        (ConnectionRefusedError(), "ERR_CONNECTION_REFUSED"),
        (ConnectionResetError(), "ERR_CONNECTION_REFUSED"),
        (BrokenPipeError(), "ERR_CONNECTION_REFUSED"),
        (OSError(errno.EHOSTUNREACH, ""), "ERR_CONNECTION_REFUSED"),
        (OSError(errno.ENETUNREACH, ""), "ERR_CONNECTION_REFUSED"),
        (ssl.SSLEOFError(), "ERR_CONNECTION_REFUSED"),
        (httpx2.ReadTimeout(""), "ERR_HTTP_TIMEOUT"),
        (httpx2.PoolTimeout(""), "ERR_HTTP_TIMEOUT"),
        (httpx2.ConnectError(""), "ERR_CONNECTION_REFUSED"),
        (httpx2.RemoteProtocolError(""), "ERR_CONNECTION_REFUSED"),
        (httpx2.UnsupportedProtocol(""), "ERR_VALIDATION_FAILED"),
        (httpx2.DecodingError(""), "ERR_DESERIALIZATION_FAILED"),
        (httpx2.TooManyRedirects(""), "ERR_UNKNOWN"),
        (urllib.error.HTTPError("u", 503, "", HTTPMessage(), None), "ERR_HTTP_503"),
        (urllib.error.HTTPError("u", 302, "", HTTPMessage(), None), "ERR_UNKNOWN"),
        (json.JSONDecodeError("", "", 0), "ERR_DESERIALIZATION_FAILED"),
        (msgspec.ValidationError(), "ERR_VALIDATION_FAILED"),
        (asyncio.CancelledError(), "ERR_CANCELLED"),
        (PermissionError(errno.EACCES, ""), "ERR_PERMISSION_DENIED"),
        (OSError(errno.ENOSPC, ""), "ERR_STORAGE_QUOTA_EXCEEDED"),
        (SkillNotFound("x"), "ERR_SKILL_NOT_FOUND"),
        (CanonicalizationError("x"), "ERR_SERIALIZATION_FAILED"),
        (PlanError("x"), "ERR_INTERNAL"),
        (ValueError(), "ERR_INTERNAL"),
        (KeyError(), "ERR_INTERNAL"),
        (MyError(), "ERR_INTERNAL"),
        (OSError(), "ERR_INTERNAL"),
        (SkillError("x"), "ERR_INTERNAL"),
        (SkillError.of("ERR_JSON_PATH_NOT_FOUND"), "ERR_JSON_PATH_NOT_FOUND"),
        (SkillError.of("ERR_RATE_LIMITED"), "ERR_RATE_LIMIT_INTERNAL"),
        (SkillError.of("MY_OWN_CODE"), "MY_OWN_CODE"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{type(value).__qualname__}-{getattr(value, 'errno', '')}",
)
def test_an_exception_has_this_code(exception: BaseException, code: str) -> None:
    assert map_exception_to_code(exception) == code
    assert map_exception_to_code(chain(MyError(), exception)) == code
    assert map_exception_to_code(chain(RuntimeError(), MyError(), exception)) == code


def test_the_text_of_an_exception_says_nothing() -> None:
    assert map_exception_to_code(RuntimeError("503 timed out: connection refused")) == "ERR_INTERNAL"
    assert map_exception_to_code(TimeoutError("connection refused")) == "ERR_TIMEOUT"


NETWORK = [ssl.SSLError(), socket.gaierror(), TimeoutError(), ConnectionRefusedError()]


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("second", range(4))
def test_tls_goes_before_names_before_timeouts_before_refusals_wherever_they_stand(first: int, second: int) -> None:
    outer, inner = type(NETWORK[first])(), type(NETWORK[second])()
    winner = NETWORK[min(first, second)]
    assert map_exception_to_code(chain(MyError(), outer, inner)) == map_exception_to_code(winner)


def test_a_timeout_is_http_where_an_http_library_took_part() -> None:
    assert map_exception_to_code(chain(httpx2.ConnectError(""), TimeoutError())) == "ERR_HTTP_TIMEOUT"
    assert map_exception_to_code(chain(TimeoutError(), httpx2.ReadTimeout(""))) == "ERR_HTTP_TIMEOUT"
    assert map_exception_to_code(chain(MyError(), TimeoutError())) == "ERR_TIMEOUT"


def test_waiting_for_tls_is_no_failure_of_tls() -> None:
    assert map_exception_to_code(chain(httpx2.ConnectTimeout(""), ssl.SSLWantReadError())) == "ERR_HTTP_TIMEOUT"


def test_context_counts_like_cause_unless_the_skill_hid_it() -> None:
    def call() -> None:
        raise ConnectionRefusedError

    def handle(*, hide: bool) -> None:
        try:
            call()
        except ConnectionRefusedError:
            if hide:
                raise MyError from None
            raise MyError  # noqa: B904 - the implicit context is the subject

    with pytest.raises(MyError) as caught:
        handle(hide=False)
    assert map_exception_to_code(caught.value) == "ERR_CONNECTION_REFUSED"
    with pytest.raises(MyError) as caught:
        handle(hide=True)
    assert map_exception_to_code(caught.value) == "ERR_INTERNAL"


def test_a_context_that_an_http_library_hid_is_still_the_reason() -> None:
    hidden = httpx2.ConnectError("")
    hidden.__context__, hidden.__suppress_context__ = socket.gaierror(), True
    assert map_exception_to_code(hidden) == "ERR_DNS_FAILURE"


def test_members_of_a_group_count_in_order() -> None:
    group = ExceptionGroup("g", [ValueError(), chain(MyError(), TimeoutError()), ConnectionRefusedError()])
    types = [fact.type for fact in facts_of(group).exceptions]
    assert [name.rpartition(".")[2] for name in types] == [
        "ExceptionGroup", "ValueError", "MyError", "TimeoutError", "ConnectionRefusedError",
    ]  # fmt: skip
    assert map_exception_to_code(group) == "ERR_TIMEOUT"


def test_a_circle_of_causes_ends() -> None:
    one, other = MyError(), ConnectionRefusedError()
    one.__cause__, other.__cause__ = other, one
    assert map_exception_to_code(one) == "ERR_CONNECTION_REFUSED"
    assert len(facts_of(one).exceptions) == 2


def test_a_chain_without_end_is_cut() -> None:
    links = [MyError() for _ in range(500)]
    assert len(facts_of(chain(*links)).exceptions) == 32


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (200, "OK"), (204, "OK"), (299, "OK"),
        (400, "ERR_HTTP_400"), (401, "ERR_HTTP_401"), (403, "ERR_HTTP_403"), (404, "ERR_HTTP_404"),
        (408, "ERR_HTTP_TIMEOUT"), (409, "ERR_HTTP_4XX"), (418, "ERR_HTTP_4XX"), (422, "ERR_HTTP_4XX"),
        (429, "ERR_HTTP_429"), (499, "ERR_HTTP_4XX"), (500, "ERR_HTTP_500"), (501, "ERR_HTTP_5XX"),
        (502, "ERR_HTTP_502"), (503, "ERR_HTTP_503"), (504, "ERR_HTTP_504"), (529, "ERR_HTTP_5XX"),
        (100, "ERR_UNKNOWN"), (101, "ERR_UNKNOWN"), (302, "ERR_UNKNOWN"), (304, "ERR_UNKNOWN"), (600, "ERR_UNKNOWN"),
    ],
)  # fmt: skip
def test_a_status_has_this_code(status: int, code: str) -> None:
    assert classify(Facts(http_status=status)) == code


def test_a_status_that_is_an_error_goes_before_what_was_raised_about_it() -> None:
    odd = ExceptionFact(errno=None, type="json.decoder.JSONDecodeError")
    assert classify(Facts(http_status=503, exceptions=(odd,))) == "ERR_HTTP_503"
    assert classify(Facts(http_status=200, exceptions=(odd,))) == "ERR_DESERIALIZATION_FAILED"


@pytest.mark.parametrize("status", [100, 101, 301, 302, 304, 399])
def test_a_status_that_nobody_expected_is_unknown_also_where_something_was_raised_about_it(status: int) -> None:
    for odd in ("urllib.error.HTTPError", "builtins.ValueError", "builtins.TimeoutError"):
        code = classify(Facts(http_status=status, exceptions=(ExceptionFact(errno=None, type=odd),)))
        assert code == "ERR_UNKNOWN"
        assert not TAXONOMY[code].retryable


@pytest.mark.parametrize("attribute", ["http_status", "status_code"])
def test_a_status_is_found_on_the_exception_or_its_response(attribute: str) -> None:
    error = MyError()
    setattr(error, attribute, 503)
    assert map_exception_to_code(chain(ValueError(), error)) == "ERR_HTTP_503"
    wrong = MyError()
    setattr(wrong, attribute, "503")
    assert map_exception_to_code(wrong) == "ERR_INTERNAL"
    response = httpx2.Response(404, request=httpx2.Request("GET", "http://h"))
    with pytest.raises(httpx2.HTTPStatusError) as caught:
        response.raise_for_status()
    assert map_exception_to_code(caught.value) == "ERR_HTTP_404"


def test_an_exception_whose_attributes_fail_is_classified_all_the_same() -> None:
    class Hostile(Exception):
        @property
        def response(self) -> object:
            raise RuntimeError("no response")

        @property
        def errno(self) -> object:
            raise RuntimeError("no errno")

    assert map_exception_to_code(Hostile()) == "ERR_INTERNAL"


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("content_filter", "ERR_LLM_CONTENT_FILTER"),
        ("refusal", "ERR_LLM_CONTENT_FILTER"),
        ("model_context_window_exceeded", "ERR_LLM_CONTEXT_LENGTH"),
        ("stop", "OK"),
        ("length", "OK"),
        ("end_turn", "OK"),
        (None, "OK"),
    ],
)
def test_how_a_model_ended_has_this_code(reason: str | None, code: str) -> None:
    assert classify(Facts(finish_reason=reason, http_status=200, usage=Usage(1, 2))) == code


@pytest.mark.parametrize("name", ["", "nonsense"])
def test_an_exception_without_a_type_is_unknown(name: str) -> None:
    assert classify(Facts(exceptions=(ExceptionFact(errno=None, type=name),))) == "ERR_UNKNOWN"


def test_a_skill_that_names_no_code_is_unknown() -> None:
    assert (
        classify(Facts(exceptions=(ExceptionFact(errno=None, type="reenact.errors.SkillError.no code"),)))
        == "ERR_UNKNOWN"
    )


def test_errnos_are_recorded_in_linux_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errno, "errorcode", {65: "EHOSTUNREACH"})  # as on macOS
    (fact,) = facts_of(OSError(65, "")).exceptions
    assert fact == ExceptionFact(errno=113, type="builtins.OSError")
    assert classify(Facts(exceptions=(fact,))) == "ERR_CONNECTION_REFUSED"


def test_numbers_that_are_no_errnos_are_not_taken_for_some() -> None:
    assert map_exception_to_code(ssl.SSLError(111, "")) == "ERR_SSL_ERROR"
    assert map_exception_to_code(socket.gaierror(110, "")) == "ERR_DNS_FAILURE"
    error = MyError()
    error.errno = 111  # type: ignore[attr-defined]
    assert map_exception_to_code(error) == "ERR_INTERNAL"


def test_facts_hold_all_their_keys_in_canonical_order() -> None:
    facts = facts_of(ConnectionRefusedError(111, "secret text"))
    assert canonicalize(facts) == (
        b'{"exceptions":[{"errno":111,"type":"builtins.ConnectionRefusedError"}],'
        b'"finish_reason":null,"http_status":null,"usage":null}'
    )
    assert msgspec.json.decode(canonicalize(facts), type=Facts) == facts


def test_every_code_of_the_rules_is_in_the_taxonomy() -> None:
    assert {rule.code for rule in (*NETWORK_RULES, *OTHER_RULES)} <= set(TAXONOMY)


facts = st.builds(
    Facts,
    exceptions=st.lists(
        st.builds(
            ExceptionFact,
            errno=st.none() | st.integers(-20, 200),
            type=st.sampled_from([".".join(name) for name in sorted(KNOWN_NAMES)]) | st.text(max_size=20),
        ),
        max_size=4,
    ).map(tuple),
    finish_reason=st.none() | st.text(max_size=10) | st.just("refusal"),
    http_status=st.none() | st.integers(0, 700),
    usage=st.none() | st.builds(Usage, st.integers(0, 10), st.integers(0, 10)),
)


@given(facts)
def test_all_facts_have_a_code_of_the_taxonomy_and_a_recording_has_the_same(value: Facts) -> None:
    code = classify(value)
    assert code in TAXONOMY
    recorded = msgspec.json.decode(msgspec.json.encode(value), type=Facts)
    assert classify(recorded) == code


@given(facts)
def test_what_was_used_does_not_change_the_code(value: Facts) -> None:
    assert classify(msgspec.structs.replace(value, usage=None)) == classify(value)
