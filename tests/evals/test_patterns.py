"""Patterns find what `re` finds, in a time that follows from the length of the text."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reenact.errors import UsageError
from reenact.evals.patterns import Pattern, quoted

ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "[a-c1]", r"\d", r"\W", r"\b", r"\B", "^", r"[\d_]", r"\.", r"\n", " ", "é"]
)
TIMES = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0}", "{0,2}", "{2,}", "{,2}", "*?", "+?", ""])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: (
        st.builds("{}{}".format, inner, inner)
        | st.builds("(?:{}|{})".format, inner, inner)
        | st.builds("({}){}".format, inner, TIMES)
    ),
    max_leaves=8,
)
TEXTS = st.text("abcé1 _.\n", max_size=12)


@given(PATTERNS, TEXTS, st.booleans())
def test_what_is_found_is_what_the_standard_library_finds(pattern: str, text: str, ignore_case: bool) -> None:
    assume(text or "B" not in pattern)  # in an empty text \\B holds here, and in `re` only since 3.14
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    assert Pattern(pattern, ignore_case=ignore_case).search(text) == bool(re.search(pattern, text, flags))


@given(TEXTS, TEXTS)
def test_a_quoted_text_is_found_as_it_stands(wanted: str, around: str) -> None:
    assert Pattern(quoted(wanted)).search(around + wanted + around)
    assert Pattern(quoted(wanted)).search(around) == (wanted in around)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*a){12}b", "a{30}a{30}b"])
def test_no_pattern_takes_longer_than_the_text_is_long(pattern: str) -> None:
    searching = Pattern(pattern)
    started = time.process_time()
    assert not searching.search("a" * 20_000 + "c")
    assert time.process_time() - started < 5


def test_the_end_is_the_end_and_no_line_before_it() -> None:
    assert Pattern("a$").search("ba")
    assert not Pattern("a$").search("a\n")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(a", "nothing closes"),
        ("a)", "nothing opened"),
        ("[a", "nothing closes"),
        ("*a", "nothing to repeat"),
        ("a**", "nothing to repeat"),
        (r"(a)\1", "nobody knows"),
        ("(?=a)", "not (…) or (?:…)"),
        ("[z-a]", "ends before it begins"),
        ("a{3,2}", "less than its least"),
        ("a{99999}", "cannot be counted"),
        ("(((a{99}){99}){99}){99}", "repeat less"),
        ("a" * 1001, "at most 1000"),
        ("(" * 200 + ")" * 200, "too deep"),
        ("\\", "nobody knows"),
    ],
)
def test_what_is_no_pattern_is_told_with_its_place(pattern: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        Pattern(pattern)
