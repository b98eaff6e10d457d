"""Reshaping values between steps."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.builtin.json_transform import json_transform
from reenact.builtin.transform.operations import one_of
from reenact.values.canonical import canonicalize
from tests.builtin.calling import call

PEOPLE = [
    {"name": "Ann", "age": 31, "tags": ["x"], "home": {"city": "Bern"}},
    {"name": "Bob", "age": 25, "tags": [], "home": {"city": "Basel"}},
    {"name": "Cy", "age": 25, "tags": ["x", "y"], "home": {}, "gone": None},
]


def transform(data: Any, operation: str, **more: Any) -> Any:
    called = call(json_transform, {"data": data, "operation": operation, **more})
    assert called.report.side_effects == []
    return called.output["result"] if called.code == "OK" else called.code


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("[0].home.city", "Bern"),
        ("/1/name", "Bob"),
        ("[2].tags[1]", "y"),
        ("[2].gone", None),
        ("", PEOPLE),
        ("/1/tags", []),
    ],
)
def test_extract_follows_both_forms_of_paths(path: str, expected: Any) -> None:
    assert transform(PEOPLE, "extract", path=path) == expected


def test_a_pointer_reaches_names_that_dots_cannot_write() -> None:
    data = {"a.b": {"c/d": {"~": 1}}, "": 2}
    assert transform(data, "extract", path="/a.b/c~1d/~0") == 1
    assert transform(data, "extract", path="/") == 2


@pytest.mark.parametrize("path", ["[3]", "/0/nothing", "[0].name.x", "/01/name", "/-/x", "[0].tags[5]"])
def test_a_path_that_leads_nowhere_is_not_found_unless_a_default_is_given(path: str) -> None:
    assert transform(PEOPLE, "extract", path=path) == "ERR_JSON_PATH_NOT_FOUND"
    assert transform(PEOPLE, "extract", path=path, default=0) == 0


@pytest.mark.parametrize("path", ["a..b", "a[", "a[x]", "a[-1]", "/a~2", "a]b"])
def test_a_path_that_cannot_be_read_is_invalid(path: str) -> None:
    assert transform({"a": 1}, "extract", path=path) == "ERR_JSON_PATH_INVALID"


def test_pick_and_omit_work_on_objects_and_on_lists_of_them() -> None:
    assert transform(PEOPLE[0], "pick", fields=["name", "nothing"]) == {"name": "Ann"}
    assert transform(PEOPLE, "pick", fields=["age"]) == [{"age": 31}, {"age": 25}, {"age": 25}]
    assert transform(PEOPLE[1], "omit", fields=["home", "tags"]) == {"name": "Bob", "age": 25}


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ({"path": "age", "op": "eq", "value": 25}, ["Bob", "Cy"]),
        ({"path": "age", "value": 31}, ["Ann"]),
        ({"path": "age", "op": "ne", "value": 25}, ["Ann"]),
        ({"path": "age", "op": "gt", "value": 25}, ["Ann"]),
        ({"path": "age", "op": "ge", "value": 25}, ["Ann", "Bob", "Cy"]),
        ({"path": "age", "op": "lt", "value": 31}, ["Bob", "Cy"]),
        ({"path": "name", "op": "le", "value": "Bob"}, ["Ann", "Bob"]),
        ({"path": "age", "op": "lt", "value": "zzz"}, []),
        ({"path": "name", "op": "in", "value": ["Ann", "Cy"]}, ["Ann", "Cy"]),
        ({"path": "tags", "op": "contains", "value": "x"}, ["Ann", "Cy"]),
        ({"path": "home.city", "op": "contains", "value": "Ba"}, ["Bob"]),
        ({"path": "gone", "op": "exists"}, ["Cy"]),
        ({"path": "home.city", "op": "exists", "value": False}, ["Cy"]),
        ([{"path": "age", "value": 25}, {"path": "tags", "op": "contains", "value": "y"}], ["Cy"]),
    ],
)
def test_filter_keeps_items_for_which_every_condition_holds(where: Any, names: list[str]) -> None:
    assert [item["name"] for item in transform(PEOPLE, "filter", where=where)] == names


def test_true_is_not_one() -> None:
    assert transform([{"a": 1}, {"a": True}], "filter", where={"path": "a", "value": 1}) == [{"a": 1}]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([0.0, -0.0, 1.0, 1.5, 2**52, 2.0**52, "", "1", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(st.lists(JSON, max_size=8), st.lists(JSON, max_size=8))
def test_one_of_many_is_found_as_it_is_by_comparing_with_each(items: list[Any], wanted: list[Any]) -> None:
    def equal(found: Any, item: Any) -> bool:
        return isinstance(found, bool) is isinstance(item, bool) and bool(found == item)

    data = [{"a": item, "n": n} for n, item in enumerate(items)]
    found = transform(data, "filter", where={"path": "a", "op": "in", "value": wanted})
    expected = [n for n, item in enumerate(items) if any(equal(item, each) for each in wanted)]
    assert [item["n"] for item in found] == expected


def test_what_is_no_number_is_none_of_them() -> None:
    nan = float("nan")
    assert not one_of([nan, [nan]])(nan)
    assert one_of([[nan]])([nan]) is ([nan] == [nan])


@pytest.mark.parametrize("kind", [int, str, lambda i: [i], lambda i: {"b": i}, lambda i: i + 0.5])
def test_one_of_many_takes_no_more_than_its_length(kind: Any) -> None:
    many = [kind(i) for i in range(50_000)]
    began = perf_counter()
    where = {"path": "a", "op": "in", "value": many[::-1]}
    assert len(transform([{"a": item} for item in many], "filter", where=where)) == len(many)
    assert perf_counter() - began < 5


def test_merge_lays_objects_over_each_other() -> None:
    assert transform({"a": {"x": 1, "y": 2}, "b": [1]}, "merge", other={"a": {"y": 3}, "b": [2]}) == {
        "a": {"x": 1, "y": 3},
        "b": [2],
    }
    assert transform([{"a": 1}, {"b": 2}, {"a": 3}], "merge") == {"a": 3, "b": 2}


def test_flatten_joins_names_and_opens_lists() -> None:
    assert transform({"a": {"b": [1, {"c": 2}]}, "d": {}}, "flatten") == {"a.b.0": 1, "a.b.1.c": 2, "d": {}}
    assert transform({"a": {"b": 1}}, "flatten", separator="/") == {"a/b": 1}
    assert transform([1, [2, [3, []]]], "flatten") == [1, 2, 3]
    assert transform({"a.b": 1, "a": {"b": 2}}, "flatten") == "ERR_JSON_TRANSFORM_FAILED"


def test_sort_is_stable_in_both_directions() -> None:
    assert [item["name"] for item in transform(PEOPLE, "sort", by="age")] == ["Bob", "Cy", "Ann"]
    assert [item["name"] for item in transform(PEOPLE, "sort", by="age", descending=True)] == ["Ann", "Bob", "Cy"]
    assert transform(["b", "ä", "a"], "sort") == ["a", "b", "ä"]
    assert transform({"list": [2, 1.5]}, "sort", path="list") == [1.5, 2]


def test_map_extracts_or_renames() -> None:
    assert transform(PEOPLE, "map", by="age") == [31, 25, 25]
    assert transform(PEOPLE, "map", fields={"who": "name", "city": "home.city"})[2] == {"who": "Cy", "city": None}


@pytest.mark.parametrize(
    ("data", "operation", "more"),
    [
        ({}, "extract", {}),
        (3, "pick", {"fields": ["a"]}),
        ([1], "omit", {"fields": ["a"]}),
        ({}, "pick", {"fields": {"a": "b"}}),
        ({}, "filter", {"where": {"path": "a", "value": 1}}),
        ([], "filter", {}),
        ([], "filter", {"where": {"path": "a", "op": "like"}}),
        ([], "filter", {"where": {"path": "a", "what": 1}}),
        ({}, "merge", {"other": [1]}),
        (3, "flatten", {}),
        ([1, "a"], "sort", {}),
        ([True, False], "sort", {}),
        ([{}], "map", {}),
    ],
)
def test_what_does_not_apply_to_the_value_is_a_failed_transform(data: Any, operation: str, more: Any) -> None:
    assert transform(data, operation, **more) == "ERR_JSON_TRANSFORM_FAILED"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_values_are_worked_on_up_to_the_limits_and_not_beyond() -> None:
    assert transform(nested(100), "extract", path="") == nested(100)
    assert transform(nested(101), "extract", path="") == "ERR_JSON_DEPTH_EXCEEDED"
    assert transform({"a": "x" * 10_000_000}, "extract", path="a") == "ERR_JSON_SIZE_EXCEEDED"


def test_text_is_parsed_strictly_where_asked() -> None:
    assert transform('{"a": 1}', "extract", path="a", parse=True) == 1
    for text in ('{"a": 1', '{"a": 1, "a": 2}', "NaN", 3):
        assert transform(text, "extract", path="a", parse=True) == "ERR_JSON_INVALID"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


OPERATIONS = st.sampled_from(["extract", "pick", "omit", "filter", "merge", "flatten", "sort", "map"])


@given(JSON, OPERATIONS, st.text(max_size=8))
def test_it_fails_in_no_other_way_than_it_declares(data: Any, operation: str, path: str) -> None:
    before = canonicalize(data)
    more = {"path": path, "by": path, "fields": ["a"], "where": {"path": path}}
    called = call(json_transform, {"data": data, "operation": operation, **more})
    assert called.code == "OK" or called.code in json_transform.metadata.failure_modes
    assert canonicalize(data) == before
