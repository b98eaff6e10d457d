"""What a skill returns becomes plain JSON, or an error that says where JSON ends."""

from __future__ import annotations

import datetime
import decimal
import enum
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from reenact.errors import SkillError
from reenact.skills.plain import to_plain


class Colour(enum.Enum):
    RED = "red"


class Tagged(msgspec.Struct, tag="cat", rename="camel"):
    nine_lives: int
    gone: str | msgspec.UnsetType = msgspec.UNSET


class Pair(msgspec.Struct, array_like=True):
    left: int
    right: int


@dataclass
class Node:
    value: Any
    next: Node | None = None


class Model(pydantic.BaseModel):
    when: datetime.date
    inner: dict[str, int]


class Tags(pydantic.BaseModel):
    tags: set[str | int | frozenset[str]]


class Frozen(pydantic.BaseModel, frozen=True):
    name: str


class Names(pydantic.BaseModel):
    names: list[set[Frozen]]


class Number(pydantic.RootModel[int]):
    pass


class Anything(pydantic.BaseModel):
    x: Any


class Opened(pydantic.BaseModel):
    word: pydantic.SecretStr

    @pydantic.field_serializer("word", when_used="json")
    def open(self, word: pydantic.SecretStr) -> str:
        return word.get_secret_value()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ((1, 2.5, "x", True), [1, 2.5, "x", True]),
        (Colour.RED, "red"),
        ({Colour.RED: 1}, {"red": 1}),
        (Tagged(9), {"type": "cat", "nineLives": 9}),
        (Pair(1, 2), [1, 2]),
        (Node(Node(1)), {"value": {"value": 1, "next": None}, "next": None}),
        (Model(when=datetime.date(2025, 1, 2), inner={"a": 1}), {"when": "2025-01-02", "inner": {"a": 1}}),
        (Tags(tags={"b", "a", 10, 9, frozenset({"d", "c"})}), {"tags": [9, 10, "a", "b", ["c", "d"]]}),
        (Anything(x={"y": [Tags(tags={"b", "a"})]}), {"x": {"y": [{"tags": ["a", "b"]}]}}),
        (Names(names=[{Frozen(name=each) for each in "ecbad"}]), {"names": [[{"name": each} for each in "abcde"]]}),
        ([Number(5), Anything(x=Number(6))], [5, {"x": 6}]),
        (Opened(word="sesame"), {"word": "sesame"}),
        (datetime.datetime(2025, 1, 2, tzinfo=datetime.UTC), "2025-01-02T00:00:00Z"),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (2**53 - 1, 2**53 - 1),
        ([0.5, 1e20], [0.5, 1e20]),
    ],
)
def test_what_stands_for_json_becomes_json(value: object, expected: object) -> None:
    assert to_plain(value) == expected


def test_a_value_that_is_used_twice_is_not_a_circle() -> None:
    shared = {"a": 1}
    assert to_plain([shared, shared]) == [{"a": 1}, {"a": 1}]


def circle() -> list[Any]:
    ring: list[Any] = [{}]
    ring[0]["again"] = ring
    return ring


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (float("nan"), "the top level"),
        ({"a": [1, float("inf")]}, "/a/1"),
        ({"a": b"raw"}, "/a"),
        ({"a": {1, 2}}, "/a"),
        ({"a/b": object()}, "/a~1b"),
        ({1: "x"}, "the top level"),
        (2**53, "the top level"),
        ({"x": "\ud800"}, "/x"),
        (Node(Node(b"")), "/value/value"),
        (circle(), "/0/again"),
        ([Anything(x=b"\xff")], "/0"),
        ({"a": Anything(x=object())}, "/a"),
        ([Anything(x={"y": [pydantic.SecretStr("sesame")]})], "/0/x/y/0"),
    ],
)
def test_what_json_cannot_express_is_refused_with_its_place(value: object, path: str) -> None:
    with pytest.raises(SkillError) as caught:
        to_plain(value)
    assert caught.value.code == "ERR_SERIALIZATION_FAILED"
    assert str(caught.value).endswith(f"at {path}")


def test_endless_nesting_is_refused_before_the_interpreter_gives_up() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(SkillError, match="nested more than"):
        to_plain(deep)


@pytest.mark.parametrize(
    ("value", "spelled"), [(2.0, "2"), (-0.0, "0"), (2.0**53, "9007199254740992.0"), (1e20, "1e+20")]
)
def test_a_number_is_what_a_record_gives_back(value: float, spelled: str) -> None:
    assert repr(to_plain({"n": [value]})["n"][0]) == spelled


PRINTS_TAGS = """
import pydantic
from reenact.skills.plain import to_plain
class Tags(pydantic.BaseModel):
    tags: set[str]
print(to_plain(Tags(tags=set("abcdefgh"))))
"""


def test_a_set_in_a_model_is_the_same_in_every_process() -> None:
    """Without an order of its own it would be another argument for a program that is started again."""
    told = {
        subprocess.run(
            [sys.executable, "-c", PRINTS_TAGS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert told == {f"{{'tags': {list('abcdefgh')}}}\n"}
