"""Redaction's quick look: what it lets pass is given back untouched."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reenact.policy.redaction import REDACTED, SecretRules
from reenact.policy.secrets.patterns import INTRODUCED, SECRET_NAMES, SECRET_TEXTS, SHAPES, SUSPECT
from reenact.values.canonical import canonicalize

KNOWN = ("hunter2secret", 'quo"ted\\pass', "häßlich-geheim", "4711", "1234567", " padded key ")
FIELDS = ("ssn", "X-Internal")

texts = st.one_of(
    st.text(alphabet=st.characters(blacklist_categories=("Cs",)), max_size=20),
    st.sampled_from([*KNOWN, *SECRET_NAMES, *SECRET_TEXTS, *FIELDS, "API-Key", "Pass_Word", "S-S-N", "apiKey", "hi"]),
    st.from_regex(SHAPES, fullmatch=True).map(lambda text: text[:200]),
    st.from_regex(INTRODUCED, fullmatch=True),
    st.builds("{}{}{}".format, st.text("ab ", max_size=3), st.sampled_from(KNOWN), st.text("ab ", max_size=3)),
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), texts, st.just(4711), st.just(REDACTED)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(values)
@example({"a": [{"password": "x"}]})
@example({"count": 4711})
@example({"note": 'said quo"ted\\pass aloud'})
def test_what_passes_is_what_redaction_leaves_alone(value: object) -> None:
    rules = SecretRules(KNOWN, FIELDS)
    if rules.passes(value, canonicalize(value)):
        assert rules.apply(value, lambda _: REDACTED) is value
        assert all(REDACTED in str(value) for _ in rules.find(value))


@given(texts)
def test_a_text_that_passes_is_left_alone(text: str) -> None:
    rules = SecretRules(KNOWN)
    if rules.passes_text(text):
        assert rules.apply_text(text, lambda _: REDACTED) is text


@given(st.from_regex(SHAPES, fullmatch=True) | st.from_regex(INTRODUCED, fullmatch=True))
def test_every_shape_of_a_secret_is_suspect(secret: str) -> None:
    assert SUSPECT.search(secret.encode()) is not None


@pytest.mark.parametrize("value", [{"text": "hello", "count": 3}, ["a", {"b": None}], "plain words", None, 5])
def test_what_most_steps_say_passes(value: object) -> None:
    assert SecretRules(KNOWN, FIELDS).passes(value, canonicalize(value))


@pytest.mark.parametrize("name", ["password", "API_KEY", "x-internal", "S_S_N"])
def test_a_secret_field_does_not_pass_the_first_time_nor_later(name: str) -> None:
    rules, value = SecretRules((), FIELDS), {"outer": [{name: 1}]}
    assert not rules.passes(value, canonicalize(value))
    assert not rules.passes(value, canonicalize(value))


STRING = {"type": "string", "description": "Of the account.", "minLength": 8}


@pytest.mark.parametrize("described", [STRING, {"anyOf": [STRING, {"type": "null"}], "default": None}])
def test_the_type_of_a_parameter_that_is_called_password_is_no_secret(described: object) -> None:
    value = {"properties": {"password": described}}
    assert SecretRules().find(value) == []
    assert SecretRules().apply(value, lambda _: REDACTED) is value


@pytest.mark.parametrize("said", [
    {"type": "basic"}, {"type": "string", "default": "hunter2"}, {"type": "string", "value": "hunter2"},
    {"anyOf": [{"const": "hunter2"}]}, {"type": ["string"]}, {"description": "hunter2"},
])  # fmt: skip
def test_what_only_looks_like_a_type_is_a_secret_as_before(said: object) -> None:
    assert SecretRules().find({"password": said}) == ["/password"]


def test_where_fields_are_secret_by_their_place_everything_is_looked_at() -> None:
    assert not SecretRules((), ("/a/b",)).passes({"x": 1}, b'{"x":1}')
