"""A value as a record gives it back is what is read from its canonical bytes, down to the types."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import CanonicalizationError
from reenact.values.canonical import as_recorded, canonicalize, parse_canonical

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(exclude_categories=["Cs"]))
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**6), 10**6).map(float)
VALUES = st.recursive(
    SCALARS | NUMBERS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text("abé\uffee\U0001f600"), inner),
)


@given(VALUES)
def test_it_is_what_the_canonical_bytes_say(value: Any) -> None:
    """2 and 2.0, a list and a tuple, and two orders of keys are told apart."""
    assert repr(as_recorded(value)) == repr(parse_canonical(canonicalize(value)))


def test_what_reads_back_as_it_is_is_not_copied() -> None:
    value = {"a": [1, 0.5, "ü", None, True, 1e20], "b": {}}
    assert as_recorded(value) is value


@pytest.mark.parametrize(
    "value", [b"x", float("nan"), float("inf"), 2**53, {1: 2}, {"a": "\ud800"}, {"\udfff": 1}, [{1, 2}], [object()]]
)
def test_what_canonical_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(CanonicalizationError):
        as_recorded(value)


def test_a_circle_is_refused_and_does_not_end_the_stack() -> None:
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(CanonicalizationError, match="circular"):
        as_recorded(circle)
