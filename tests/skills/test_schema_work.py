"""A schema whose parts meet one value in many ways is told before a value comes, and ends nobody's process."""

from __future__ import annotations

import time
from typing import Any

import pytest

from reenact.errors import SkillDeclarationError
from reenact.skills.schema import SchemaCheck
from reenact.skills.schema_work import work

INTEGER = {"type": "integer"}


@pytest.fixture(autouse=True)
def _quick() -> object:
    """Each of these took minutes, or for ever."""
    began = time.process_time()
    yield
    assert time.process_time() - began < 2


def doubling(keyword: str, steps: int) -> dict[str, Any]:
    """Each part names the next one twice."""
    parts: dict[str, Any] = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}, {"minLength": 0, "$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(steps)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**parts, f"d{steps}": INTEGER}}


def with_ids(schema: dict[str, Any]) -> dict[str, Any]:
    for name, part in schema["$defs"].items():
        part["$id"] = f"https://example.com/{name}"
        for each in part.get("anyOf", []):
            each["$ref"] = f"d{int(name[1:]) + 1}"
    return {**schema, "$id": "https://example.com/whole", "$ref": "https://example.com/d0"}


def with_anchors(schema: dict[str, Any]) -> dict[str, Any]:
    for name, part in schema["$defs"].items():
        part["$anchor"] = name
        for each in part.get("anyOf", []):
            each["$ref"] = f"#d{int(name[1:]) + 1}"
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        *(doubling(keyword, 60) for keyword in ("anyOf", "allOf", "oneOf")),
        with_ids(doubling("anyOf", 60)),
        with_anchors(doubling("anyOf", 60)),
        {"default": {"$id": "urn:a"}, **doubling("anyOf", 60), "$id": "urn:a"},
    ],
)
def test_references_of_references_are_refused(schema: dict[str, Any]) -> None:
    """Sixty of them, by place, by id, by anchor, and with a default that says it is the whole."""
    with pytest.raises(SkillDeclarationError, match="more than 100000 ways"):
        SchemaCheck(schema, "skill t")


EXPRESSION = {
    "anyOf": [
        {"type": "object", "properties": {"all": {"items": {"$ref": "#/$defs/E"}}}, "required": ["all"]},
        {"type": "object", "properties": {"no": {"$ref": "#/$defs/E"}}, "required": ["no"]},
        {"type": "object", "properties": {"no": {"$ref": "#/$defs/E"}, "why": {"type": "string"}}, "required": ["why"]},
        {"type": "string"},
    ]
}  # fmt: skip
QUERY = {
    "type": "object",
    "properties": {"where": {"$ref": "#/$defs/E"}, "limit": INTEGER},
    "required": ["limit"],
    "$defs": {"E": EXPRESSION},
}


def negated(times: int, value: object) -> object:
    for _ in range(times):
        value = {"no": value, "why": "it must not be"}
    return value


@pytest.mark.parametrize("more", [{}, {"$id": "https://example.com/query.json"}])
def test_a_wrong_value_deep_in_a_recursive_schema_is_told_by_its_member(more: dict[str, Any]) -> None:
    """A model's filter, wrong at the 200th level: naming each mistake took three times as long with every level."""
    check = SchemaCheck({**QUERY, **more}, "skill t")
    assert check.problems({"where": negated(200, 5), "limit": 1}) == ["/where: does not fit its schema"]
    assert check.problems({"where": negated(200, "a")}) == ["/limit: is required"]
    assert check.problems({"where": negated(200, "a"), "limit": 1}) == []
    written = {"where": negated(3, {"$secret": "A"}), "limit": "x"}
    assert check.problems_as_written(written) == ["/limit: does not fit its schema"]


def test_what_comes_back_in_one_way_only_is_told_in_full() -> None:
    node = {
        "type": "object",
        "properties": {"v": INTEGER, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["v"],
    }
    assert work(node).is_explained
    assert SchemaCheck(node, "skill t").problems({"next": None}) == ["/v: is required"]


def test_a_chain_of_references_longer_than_the_stack() -> None:
    parts: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5000)}
    assert work({"$ref": "#/$defs/d0", "$defs": {**parts, "d5000": INTEGER}}).ways == 5002
