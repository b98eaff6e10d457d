"""Which paths a declared result rules out; what it leaves open may be there."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.builtin.http_call import http_call
from reenact.builtin.llm_invoke import llm_invoke
from reenact.skills.schema.paths import leads_somewhere

NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
        "either": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Row"}]},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "loop": {"$ref": "#/$defs/Loop"},
    },
    "$defs": {
        "Row": {"type": "object", "properties": {"name": {"type": "string"}}},
        "Loop": {"$ref": "#/$defs/Loop"},
    },
}


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("", True),
        ("rows", True),
        ("rows.0", True),
        ("rows.0.name", True),
        ("rows.0.age", False),
        ("rows.first", False),
        ("rows.0.name.x", False),
        ("either.name", True),
        ("either.age", False),
        ("map.anything", True),
        ("map.anything.deeper", False),
        ("loop.a.b", True),
        ("nothing", False),
    ],
)
def test_nested_shapes(path: str, there: bool) -> None:
    assert leads_somewhere(NESTED, [part for part in path.split(".") if part]) is there


def test_built_in_skills_say_enough_to_catch_a_wrong_name() -> None:
    http, model = http_call.metadata.output_schema, llm_invoke.metadata.output_schema
    assert leads_somewhere(http, ["body", "items", "0"])
    assert leads_somewhere(http, ["headers", "etag"])
    assert not leads_somewhere(http, ["content"])
    assert leads_somewhere(model, ["usage", "input_tokens"])
    assert not leads_somewhere(model, ["choices", "0"])


def test_a_skill_that_declares_nothing_rules_nothing_out() -> None:
    assert leads_somewhere({}, ["a", "b"])
    assert leads_somewhere({"type": "object"}, ["a", "b"])
