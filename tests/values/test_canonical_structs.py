"""Typed records: the compiled guard, and the strict writer beside it."""

from __future__ import annotations

import datetime
import enum
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from reenact.errors import CanonicalizationError
from reenact.values import canonical
from reenact.values.canonical import _canonicalize_strictly, canonicalize


class Inner(msgspec.Struct):
    y: str
    x: int = 0


class Record(msgspec.Struct):
    state: Literal["A", "B"]
    name: str
    count: int
    key: str | None = None
    digest: str | UnsetType = UNSET
    flag: bool = False
    inner: Inner | None = None
    many: list[Inner] = []
    extra: dict[str, Any] = {}
    anything: Any = None


class Renamed(msgspec.Struct, rename="camel", omit_defaults=True, tag_field="kind", tag="renamed"):
    some_name: str = "abc"
    a_list: list[int] = []
    flag: bool = True
    nothing: int | None = None
    number: int = 7
    rate: float = 0.5


class Names(enum.StrEnum):
    A = "A"


class Numbers(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


def both(value: object) -> bytes:
    """The bytes of both ways, which must be the same."""
    fast = canonicalize(value)
    assert fast == _canonicalize_strictly(value)
    return fast


def test_a_struct_is_the_object_of_its_fields_in_canonical_order() -> None:
    record = Record("A", "é", 1, inner=Inner("y", 2), many=[Inner("z")], extra={"b": 1, "a": [1.5]})
    assert (
        both(record)
        == (
            '{"anything":null,"count":1,"extra":{"a":[1.5],"b":1},"flag":false,"inner":{"x":2,"y":"y"},'
            '"key":null,"many":[{"x":0,"y":"z"}],"name":"é","state":"A"}'
        ).encode()
    )


def test_a_typed_record_takes_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "_canonicalize_strictly", lambda obj: pytest.fail("took the strict way"))
    canonicalize(Record("A", "b", 2, digest="d", inner=Inner("y"), many=[Inner("z")], extra={"k": [1, 0.5]}))
    canonicalize({"a": [1, "b", None, True, 2.5, {"c": ()}]})


def test_unset_fields_are_left_out_and_null_ones_are_not() -> None:
    assert b"digest" not in both(Record("A", "b", 1))
    assert b'"key":null' in both(Record("A", "b", 1))
    assert b'"digest":"x"' in both(Record("A", "b", 1, digest="x"))


def test_renaming_tags_and_omitted_defaults_are_honoured() -> None:
    assert both(Renamed()) == b'{"kind":"renamed"}'
    assert both(Renamed("x", [1], False, 3, 8, 1.0)) == (
        b'{"aList":[1],"flag":false,"kind":"renamed","nothing":3,"number":8,"rate":1,"someName":"x"}'
    )


def test_a_default_is_left_out_by_its_value_and_not_by_its_identity() -> None:
    same = str(b"abc", "ascii")
    assert same is not Renamed.__struct_defaults__[0]
    assert both(Renamed(same)) == both(Renamed()) == both(Renamed(rate=float("0.5")))
    assert both(Renamed(number=7.0)) == both(Renamed())  # type: ignore[arg-type]
    assert both(Renamed(flag=1)) == b'{"flag":1,"kind":"renamed"}'  # type: ignore[arg-type]


@pytest.mark.parametrize("hidden", [Names.A, Numbers.ONE, Text("A"), b"x", {1}, datetime.date(2025, 1, 1), 2**53])
@pytest.mark.parametrize("field", ["state", "name", "count", "key", "digest", "flag", "anything"])
def test_msgspec_does_not_check_types_on_construction_but_the_guard_does(hidden: object, field: str) -> None:
    fields: dict[str, Any] = {"state": "A", "name": "b", "count": 1, field: hidden}
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize(Record(**fields))
    assert caught.value.path == f"/{field}"
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize([Record("A", "b", 1, extra={"k": [hidden]})])
    assert caught.value.path == "/0/extra/k/0"


def test_a_lone_surrogate_in_a_field_is_refused_with_its_path() -> None:
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize(Record("A", "b", 1, many=[Inner("y"), Inner("\ud800")]))
    assert caught.value.path == "/many/1/y"


def test_default_values_that_json_cannot_say_are_still_refused_with_their_path() -> None:
    class Odd(msgspec.Struct, omit_defaults=True):
        when: Any = datetime.date(2025, 1, 1)

    assert both(Odd()) == b"{}"
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize([Odd(datetime.date(2026, 1, 1))])
    assert caught.value.path == "/0/when"


def test_a_field_that_was_never_set_is_refused() -> None:
    record = Inner("y")
    del record.y
    with pytest.raises(CanonicalizationError, match="never set"):
        canonicalize(record)


def test_array_like_structs_are_refused() -> None:
    class Pair(msgspec.Struct, array_like=True):
        a: int

    with pytest.raises(CanonicalizationError, match="array-like"):
        canonicalize({"p": Pair(1)})


def test_structs_in_a_circle_are_refused() -> None:
    record = Record("A", "b", 1)
    record.anything = [record]
    with pytest.raises(CanonicalizationError, match="circular") as caught:
        canonicalize(record)
    assert caught.value.path == "/anything/0"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["class", "b"], b'{"b":2,"class":1}'),
        (["\ue000a", "a\U00010400"], '{"a\U00010400":2,"\ue000a":1}'.encode()),
        (["b", "a"], b'{"a":2,"b":1}'),
    ],
)
def test_field_names_of_any_kind_are_sorted_as_keys(names: list[str], expected: bytes) -> None:
    plain = [f"f{number}" for number in range(len(names))]
    renamed = msgspec.defstruct("Renamed", [(name, int) for name in plain], rename=dict(zip(plain, names, strict=True)))
    assert both(renamed(1, 2)) == expected


def test_field_names_that_are_no_identifiers_do_not_reach_the_compiler() -> None:
    made = msgspec.defstruct("Made", [("class", int), ("ﬁ", Any)])
    assert both(made(1, None)) == '{"class":1,"ﬁ":null}'.encode()
    with pytest.raises(CanonicalizationError):
        canonicalize(made(1, Names.A))


def test_annotations_that_cannot_be_resolved_cost_nothing_but_speed() -> None:
    made = msgspec.defstruct("Made", [("a", "Nowhere"), ("b", "str")])
    assert both(made("x", "y")) == b'{"a":"x","b":"y"}'


@pytest.mark.parametrize("name", ["é", 'a"b', "a\\b", "a\nb", "\x7f", "zz", "A"])
def test_tags_stand_under_any_name(name: str) -> None:
    class Tagged(msgspec.Struct, tag='"\u2028', tag_field=name):
        a: int
        b: int

    assert both(Tagged(1, 2)) == canonicalize({"a": 1, "b": 2, name: '"\u2028'})


def test_number_tags_are_written_as_numbers() -> None:
    class Tagged(msgspec.Struct, tag=3):
        a: int

    assert both(Tagged(1)) == b'{"a":1,"type":3}'


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**54), 2**54),
    st.floats(),
    st.text(st.characters(exclude_categories=[])),
    st.sampled_from([Names.A, Numbers.ONE, UNSET, b"x", Text("t")]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text(st.characters(exclude_categories=[]), max_size=3), inner, max_size=3),
        st.builds(Inner, inner, inner),
        st.builds(Renamed, inner, inner, inner, inner, inner, inner),
    ),
    max_leaves=5,
)


def outcome(way: Any, value: object) -> object:
    try:
        return way(value)
    except CanonicalizationError as error:
        return (error.path, str(error))


@settings(max_examples=300)
@given(st.builds(Record, values, values, values, values, values, values, values, values, values, values))
def test_both_ways_agree_on_every_record_whatever_its_fields_hold(record: Record) -> None:
    assert outcome(canonicalize, record) == outcome(_canonicalize_strictly, record)


@settings(max_examples=1000)
@given(values)
def test_what_the_guard_lets_through_is_what_the_strict_writer_writes(value: object) -> None:
    if canonical.is_exact(value):
        assert outcome(canonicalize, value) == outcome(_canonicalize_strictly, value)
    assert outcome(canonicalize, value) == outcome(_canonicalize_strictly, value)
