"""What canonical JSON accepts, what it refuses, and where it says the fault lies."""

from __future__ import annotations

import datetime
import enum
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict, namedtuple
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

import msgspec
import pytest

from reenact.errors import CanonicalizationError
from reenact.values.canonical import MAX_DEPTH, MAX_SAFE_INTEGER, canonicalize


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Name(enum.StrEnum):
    A = "a"


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Real(float):
    pass


class Point(namedtuple("Point", "x y")):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": [1, 2.5, None], "a": {"y": True, "x": False}}, b'{"a":{"x":false,"y":true},"b":[1,2.5,null]}'),
        ((1, (2,)), b"[1,[2]]"),
        ({}, b"{}"),
        ([], b"[]"),
        ("", b'""'),
        (MAX_SAFE_INTEGER, b"9007199254740991"),
        (-MAX_SAFE_INTEGER, b"-9007199254740991"),
        (1e21, b"1e+21"),
        (-0.0, b"0"),
        (1.0, b"1"),
        ({"\ue000": 1, "\U00010000": 2}, '{"\U00010000":2,"\ue000":1}'.encode()),
        ({"é": "\x7f\u2028"}, '{"é":"\x7f\u2028"}'.encode()),
        (OrderedDict(b=1, a=2), b'{"a":2,"b":1}'),
        (defaultdict(int, b=1), b'{"b":1}'),
    ],
)
def test_values_have_these_bytes(value: object, expected: bytes) -> None:
    assert canonicalize(value) == expected


REFUSED = [
    float("nan"),
    float("inf"),
    float("-inf"),
    MAX_SAFE_INTEGER + 1,
    -MAX_SAFE_INTEGER - 1,
    10**400,
    "\ud800",
    "a\udfffb",
    b"bytes",
    bytearray(b"x"),
    memoryview(b"x"),
    Color.RED,
    Level.LOW,
    Name.A,
    Text("x"),
    Whole(3),
    Real(2.5),
    Point(1, 2),
    Counter("ab"),
    MappingProxyType({"a": 1}),
    uuid.UUID(int=7),
    datetime.datetime(2025, 1, 1),
    datetime.date(2025, 1, 1),
    datetime.time(1),
    datetime.timedelta(1),
    Decimal("1.5"),
    Fraction(1, 2),
    1j,
    {1, 2},
    frozenset("a"),
    range(3),
    iter([1]),
    msgspec.UNSET,
    msgspec.Raw(b"1"),
    object(),
    int,
]


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (lambda value: value, ""),
        (lambda value: {"ok": 1, "a/b": [None, {"~": value}]}, "/a~1b/1/~0"),
        (lambda value: {"é": value}, "/é"),
        (lambda value: ("", value), "/1"),
    ],
    ids=["top", "nested", "beyond_ascii", "tuple"],
)
def test_what_json_cannot_say_is_refused_with_its_path(value: object, wrap, path: str) -> None:
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize(wrap(value))
    assert caught.value.path == path
    assert str(caught.value).endswith(path or "at the top level")
    assert caught.value.code == "ERR_SERIALIZATION_FAILED"


@pytest.mark.parametrize("key", [1, None, True, 1.5, b"a", Name.A, Text("x"), ("a",), Color.RED])
def test_keys_that_are_no_plain_strings_are_refused(key: object) -> None:
    with pytest.raises(CanonicalizationError, match="key of type") as caught:
        canonicalize({"outer": {key: 1, "a": 2}})
    assert caught.value.path == "/outer"


def test_a_lone_surrogate_in_a_key_is_refused_with_a_printable_path() -> None:
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize({"a": {"\ud800": 1}})
    assert caught.value.path == r"/a/\ud800"
    assert str(caught.value).encode()


def test_messages_never_show_the_value() -> None:
    for secret in (b"hunter2", Text("hunter2"), {"hunter2"}):
        with pytest.raises(CanonicalizationError) as caught:
            canonicalize([secret])
        assert "hunter2" not in str(caught.value)


def test_circles_are_refused_where_they_close() -> None:
    circle: dict[str, object] = {"a": [1, {}]}
    circle["a"][1]["b"] = circle  # type: ignore[index]
    with pytest.raises(CanonicalizationError, match="circular") as caught:
        canonicalize({"top": circle})
    assert caught.value.path == "/top/a/1/b"
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(CanonicalizationError, match="circular") as caught:
        canonicalize(loop)
    assert caught.value.path == "/0"


def test_a_part_that_is_shared_is_no_circle() -> None:
    shared = {"k": [1]}
    assert canonicalize([shared, {"a": shared}]) == b'[{"k":[1]},{"a":{"k":[1]}}]'
    doubled: list[object] = []
    for _ in range(MAX_DEPTH + 1):
        doubled = [doubled, doubled]
    with pytest.raises(CanonicalizationError, match="deeper than") as caught:
        canonicalize(doubled)
    assert caught.value.path == "/0" * MAX_DEPTH


def nested(depth: int, *, inner: object, as_object: bool) -> object:
    value = inner
    for _ in range(depth):
        value = {"k": value} if as_object else [value]
    return value


@pytest.mark.parametrize("as_object", [False, True])
@pytest.mark.parametrize("inner", [0, 1e300], ids=["fast", "strict"])
def test_nesting_is_limited_by_a_fixed_number_on_both_ways(inner: object, as_object: bool) -> None:
    deepest = nested(MAX_DEPTH, inner=inner, as_object=as_object)
    assert canonicalize(deepest).count(b"{" if as_object else b"[") == MAX_DEPTH
    with pytest.raises(CanonicalizationError, match=f"deeper than {MAX_DEPTH}") as caught:
        canonicalize(nested(MAX_DEPTH + 1, inner=inner, as_object=as_object))
    assert caught.value.path == ("/k" if as_object else "/0") * MAX_DEPTH
    with pytest.raises(CanonicalizationError, match="deeper than") as caught:
        canonicalize({"a": [1, {}], "b": [0, nested(MAX_DEPTH, inner=inner, as_object=as_object)]})
    assert caught.value.path == "/b/1" + ("/k" if as_object else "/0") * (MAX_DEPTH - 2)
    with pytest.raises(CanonicalizationError, match=f"deeper than {MAX_DEPTH}"):
        canonicalize(nested(200_000, inner=inner, as_object=as_object))


def test_a_caller_deep_in_the_stack_gets_the_typed_error_too() -> None:
    value = nested(MAX_DEPTH, inner=0, as_object=False)

    def descend(levels: int) -> bytes:
        return descend(levels - 1) if levels else canonicalize(value)

    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1  # type: ignore[assignment]
    with pytest.raises(CanonicalizationError, match="deeper than"):
        descend(sys.getrecursionlimit() - used - 60)


def test_equal_json_values_have_equal_bytes_whatever_spells_them() -> None:
    assert canonicalize([1, 2]) == canonicalize((1.0, 2))
    assert canonicalize({"a": 1, "b": 2}) == canonicalize({"b": 2, "a": 1})
