"""What counts as a secret in a value."""

from __future__ import annotations

import base64
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.policy.redaction import REDACTED, SecretRules, holds_mark

KNOWN = "s3cr3t/+value=ü!"
SECRETS = st.text(min_size=8, max_size=40).filter(lambda text: len(text.strip()) >= 8)


def redact(value: object, known: tuple[str, ...] = (KNOWN,), fields: tuple[str, ...] = ()) -> object:
    return SecretRules(known, fields).apply(value, lambda _: REDACTED)


@pytest.mark.parametrize(
    "written",
    [
        KNOWN,
        f"before {KNOWN} after",
        quote(KNOWN, safe=""),
        quote(KNOWN),
        quote_plus(KNOWN),
        quote(KNOWN, safe="").lower(),
        base64.b64encode(KNOWN.encode()).decode(),
        base64.b64encode(f"user:{KNOWN}".encode()).decode(),
        base64.b64encode(f"me:{KNOWN}:x".encode()).decode(),
        base64.urlsafe_b64encode(f"u:{KNOWN}".encode()).decode(),
        KNOWN.encode().hex(),
        KNOWN.encode().hex().upper(),
    ],
)
def test_a_known_secret_is_found_however_it_is_written(written: str) -> None:
    assert redact({"deep": [written]}) != {"deep": [written]}


@given(SECRETS, st.binary(max_size=5), st.binary(max_size=5))
def test_nothing_of_a_known_secret_is_left_in_base64_wherever_it_begins(
    secret: str, before: bytes, after: bytes
) -> None:
    text = base64.b64encode(before + secret.encode() + after).decode()
    left = str(redact(text, (secret,)))
    assert REDACTED in left
    # What is left may hold what stood beside the secret, and less than a character of it at either end.
    assert len(left.replace(REDACTED, "").rstrip("=")) <= (len(before) + len(after)) * 8 // 6 + 5


@given(SECRETS, st.text(max_size=20), st.text(max_size=20))
def test_a_known_secret_inside_a_text_goes_and_the_rest_stays(secret: str, before: str, after: str) -> None:
    left = str(redact(f"{before}{secret}{after}", (secret,)))
    assert secret not in left or secret in REDACTED


@pytest.mark.parametrize(
    "text",
    [
        "sk-abcdefghijklmnopqrstuvwxyz",
        "rk_live_abcdefghijklmnop",
        "ghp_" + "a" * 36,
        "xoxb-1234567890-abc",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijkl",
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
        "Authorization: Bearer abcdefghijklmnop.qrstuv",
        "Basic dXNlcjpwYXNzd29yZA==",
        "postgres://user:passw0rd@host/db",
        "https://api.example.com/v1?api_key=abcdef123456&x=1",
        "https://api.example.com/v1?x=1&access_token=abcdef123456",
    ],
)
def test_what_looks_like_a_credential_is_taken_out(text: str) -> None:
    left = redact(f"see {text} there", ())
    assert left != f"see {text} there"
    assert str(left).startswith("see ")
    assert str(left).endswith(" there")


@pytest.mark.parametrize(
    "text",
    [
        "the bearer of bad news",
        "https://example.com/a:b/c@d",
        "a basic question",
        "sk-short",
        "https://example.com/?page_token=abcdefghijkl",
        "0123456789abcdef" * 4,
        "019b76da-a800-7000-8000-000000000001",
    ],
)
def test_ordinary_texts_stay_as_they_are(text: str) -> None:
    assert redact(text, ()) is text


@pytest.mark.parametrize("name", ["password", "Authorization", "set-cookie", "Api_Key", "X-API-KEY", "client_secret"])
def test_fields_that_hold_secrets_are_emptied_whatever_is_in_them(name: str) -> None:
    assert redact({"a": [{name: {"x": 1}}]}) == {"a": [{name: REDACTED}]}
    assert redact({name: None}) == {name: None}


def test_marked_fields_are_names_or_pointers() -> None:
    value = {"card": {"number": 4242, "last": "42"}, "pin": "12", "list": [{"pin": 3}]}
    assert redact(value, (), ("/card/number", "pin")) == {
        "card": {"number": REDACTED, "last": "42"}, "pin": REDACTED, "list": [{"pin": REDACTED}],
    }  # fmt: skip
    assert redact({"a/b": {"~": "x"}}, (), ("/a~1b/~0",)) == {"a/b": {"~": REDACTED}}


def test_references_and_encrypted_values_stay() -> None:
    for mark in ({"$secret": "NAME"}, {"$sealed": "v1.abc.def"}):
        value = {"password": mark, "list": [mark]}
        assert redact(value) is value
        assert SecretRules((KNOWN,)).find(value) == []


def test_a_reference_with_company_is_no_reference() -> None:
    value = {"password": {"$secret": "NAME", "really": KNOWN}}
    assert redact(value) == {"password": REDACTED}


def test_names_of_fields_may_be_secrets_too() -> None:
    assert redact({f"for {KNOWN}": 1}) == {f"for {REDACTED}": 1}
    assert SecretRules((KNOWN,)).find({KNOWN: 1}) == [f"/{REDACTED}"]


def test_a_number_that_was_handed_out_is_found() -> None:
    assert redact({"pin": [12345678, True, 1]}, ("12345678",)) == {"pin": [REDACTED, True, 1]}


def test_short_secrets_are_found_only_where_nothing_else_stands() -> None:
    assert redact(["1234", "12345", "number 1234"], ("1234",)) == [REDACTED, "12345", "number 1234"]


def test_a_value_without_secrets_is_the_very_same_object() -> None:
    value = {"a": [1, "two", {"three": None}]}
    assert redact(value) is value
    assert SecretRules((KNOWN,)).without_known(value) is value


def test_whole_keeps_nothing_beside_a_secret_so_that_nothing_is_lost() -> None:
    handed: list[object] = []
    rules = SecretRules((KNOWN,))
    rules.apply({"a": f"x {KNOWN}", "b": {KNOWN: 1}, "c": "plain"}, handed.append, whole=True)
    assert handed == [f"x {KNOWN}", {KNOWN: 1}]


def test_find_says_where_and_never_what() -> None:
    rules = SecretRules((KNOWN,))
    places = rules.find(
        {"headers": {"authorization": KNOWN}, "list": ["fine", f"not {KNOWN}"], "old": f"was {REDACTED}"}
    )
    assert places == ["/headers/authorization", "/list/1", "/old"]


def test_a_mark_is_found_again() -> None:
    assert holds_mark({"a": [f"x {REDACTED}"]})
    assert holds_mark({REDACTED: 1})
    assert not holds_mark({"a": ["redacted"]})


def test_callers_lose_known_secrets_and_keep_what_tools_made() -> None:
    rules = SecretRules((KNOWN, "12345678"))
    value = {"echo": f"<{KNOWN}>", "made": "sk-abcdefghijklmnopqrstuvwxyz", "n": 12345678, KNOWN: [KNOWN]}
    assert rules.without_known(value) == {
        "echo": f"<{REDACTED}>", "made": "sk-abcdefghijklmnopqrstuvwxyz", "n": REDACTED, REDACTED: [REDACTED],
    }  # fmt: skip
