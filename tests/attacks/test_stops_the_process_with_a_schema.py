"""A tool's schema with a pattern that looks ahead or back, and texts on which it takes the square of their length,
or as long as anybody likes; one text, or thousands of which each is short enough."""

from __future__ import annotations

from time import perf_counter, thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import SkillDeclarationError
from reenact.skills.schema.backtracking import LONGEST, SEVERAL
from reenact.skills.schema.signature import SchemaCheck

HARD = r"(?=(a+))\1b"
LOOKS_BACK = "(?<!b)(a*)*c"
LONG = "a" * 40_000 + "!"
PLACES: dict[str, tuple[dict[str, Any], Any]] = {
    "a property": ({"properties": {"a": {"type": "string", "pattern": HARD}}}, {"a": LONG}),
    "one that looks back": ({"properties": {"a": {"pattern": LOOKS_BACK}}}, {"a": LONG}),
    "a list": ({"properties": {"a": {"items": {"pattern": HARD}}}}, {"a": [LONG]}),
    "a reference": ({"$defs": {"b": {"pattern": HARD}}, "properties": {"a": {"$ref": "#/$defs/b"}}}, {"a": LONG}),
    "a reference elsewhere": ({"x": {"b": {"pattern": HARD}}, "properties": {"a": {"$ref": "#/x/b"}}}, {"a": LONG}),
    "with others": ({"properties": {"a": {"allOf": [{"minLength": 1}], "pattern": HARD}}}, {"a": LONG}),
    "names": ({"patternProperties": {HARD: {}}}, {LONG: 1}),
    "names further in": ({"properties": {"a": {"patternProperties": {HARD: {}}}}}, {"a": {LONG: 1}}),
    "every name": ({"propertyNames": {"pattern": HARD}}, {LONG: 1}),
    "recursive": ({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}, "c": {"pattern": HARD}}},
                  {"a": {"b": {"c": LONG}}}),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_long_text_is_a_mistake_and_is_not_tried(place: str) -> None:
    schema, value = PLACES[place]
    check = SchemaCheck({"type": "object", **schema}, "a tool")
    began = perf_counter()
    problems = check.problems(value)
    assert not check.fits(value)
    assert perf_counter() - began < 0.5
    assert problems
    if place != "recursive":
        assert "longer than" in problems[0] or "too long" in problems[0]
        assert problems[0].startswith("/")


@pytest.mark.parametrize("place", PLACES)
def test_a_text_that_is_long_enough_is_tried(place: str) -> None:
    schema, _ = PLACES[place]
    check = SchemaCheck({"type": "object", **schema}, "a tool")
    assert check.fits({"a": {"aab": 1}} if "further" in place else {"aab": 1})


@pytest.mark.parametrize(
    "value",
    [
        {"a": ["a" * LONGEST] * 10_000},
        {"b": [["ab" * 100] * 100] * 100},
        {"c": {f"{number:_>4000}": 1 for number in range(2_000)}},
        {"d": [{"a" * 300 + str(number): 1} for number in range(10_000)]},
        {"e": ["a" * LONGEST]},
        {"e": ["a" * SEVERAL.longest] * 10_000},
    ],
    ids=["texts", "texts further in", "names", "names of many", "one that takes days", "texts that take days"],
)
def test_many_pieces_are_not_tried_one_by_one(value: dict[str, Any]) -> None:
    check = SchemaCheck({"properties": MANY_PIECES}, "a tool")
    began = thread_time()
    assert not check.fits(value)
    assert check.problems(value)
    assert thread_time() - began < 5  # each of them took minutes, and the last ones would not have ended


MANY_PIECES: dict[str, Any] = {
    "a": {"items": {"pattern": HARD}},
    "b": {"items": {"items": {"pattern": r"(a+)+\1(?=c)"}}},
    "c": {"propertyNames": {"pattern": HARD}},
    "d": {"items": {"patternProperties": {HARD: {}}}},
    "e": {"items": {"pattern": "(?:(?=(?:(?=(?:(?=a*)a)*)a)*)a)*b"}},
}


def test_as_many_as_anybody_has_are_tried() -> None:
    check = SchemaCheck({"properties": MANY_PIECES}, "a tool")
    assert check.fits({"a": ["aaab"] * 10_000, "b": [["aaaac"] * 100] * 10, "d": [{"aab": 1, "x": 2}] * 1_000})
    assert check.problems({"a": ["aab", "ab", "b"], "e": ["b"]}) == [rf"/a/2: the value does not match {HARD}"]


@pytest.mark.parametrize(
    ("pattern", "fit", "misfit"),
    [
        (r"^(?!\s*$).+", LONG, " " * 40_000),
        (r"^(?!.*\.\.)[a-z.]+$", "a." * 20_000, "a." * 20_000 + "."),
        (r"^(?=.*[0-9])(?=.*[A-Z])(?!.*\s).{8,}$", LONG + "A1", LONG + "A"),
        (r"^(?![)|x])(?!\))y*$", "y" * 40_000, "|yy"),
    ],
)
def test_one_that_begins_by_looking_ahead_takes_texts_of_any_length(pattern: str, fit: str, misfit: str) -> None:
    check = SchemaCheck({"items": {"pattern": pattern}}, "a tool")
    assert check.fits([fit] * 100 + [1])
    assert not check.fits([fit, misfit])


def test_a_pattern_that_is_linear_takes_any_length() -> None:
    check = SchemaCheck({"properties": {"a": {"pattern": "^(a+)+!$"}, "b": {"pattern": "(?!x)"}}}, "a tool")
    assert check.fits({"a": LONG, "b": "y" * LONGEST})
    assert check.problems({"a": LONG, "b": "y" * (LONGEST + 1)}) == [
        f"/b: the value is longer than {LONGEST} characters"
    ]


def test_what_is_no_text_is_as_before() -> None:
    check = SchemaCheck({"properties": {"a": {"pattern": HARD}}}, "a tool")
    assert check.fits({"a": 1})
    assert check.fits({"a": [LONG]})


def test_what_is_said_to_be_equal_stays_as_it_is_written() -> None:
    said = {"pattern": HARD}
    check = SchemaCheck({"properties": {"a": {"const": said}, "b": {"pattern": HARD}}}, "a tool")
    assert check.fits({"a": said})
    assert said == {"pattern": HARD}


def test_one_that_stands_where_nobody_finds_it_is_refused() -> None:
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "urn:b"}
    hidden = {**old, "dependencies": {"a": {"properties": {"a": {"pattern": HARD}}}}}
    with pytest.raises(SkillDeclarationError, match="looks ahead or back"):
        SchemaCheck({"$defs": {"b": hidden}, "$ref": "urn:b"}, "a tool")


PATTERNS = [
    HARD, LOOKS_BACK, r"^(?!a)", r"(a|b)\1$", r"(?<=a)b", r"^(?!.*bb)a|b!$", r"^(?=a|b!)(?!.*!!)[ab!]+$",
    r"^(?=(a)b)a\1?", r"^(?:(?!!a).)*$", r"^(?![)!])[^a]*", r"^(?!(a|b(!)))[ab](?:a|b)?$",
]  # fmt: skip


@given(st.text("ab!", max_size=30), st.sampled_from(PATTERNS))
def test_short_texts_get_the_answer_that_they_had(text: str, pattern: str) -> None:
    import jsonschema_rs

    schema = {"properties": {"a": {"pattern": pattern}}, "propertyNames": {"pattern": r"^(?!b)"}}
    plain = jsonschema_rs.Draft202012Validator(schema)
    assert SchemaCheck(schema, "a tool").fits({"a": text, text: 1}) == plain.is_valid({"a": text, text: 1})
