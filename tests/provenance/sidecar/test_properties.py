"""The reader and the published schema agree on sidecars with anything changed in them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.provenance import SidecarError, parse_sidecar
from tests.conftest import ROOT
from tests.provenance.sidecar.samples import SCHEMA_FILE, original, own

SCHEMA = json.loads((ROOT / SCHEMA_FILE).read_text(encoding="utf-8"))
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)
REPLACEMENTS = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        1.5,
        "",
        "x",
        "raw",
        "a\nb",
        "../x",
        [],
        {},
        ["x"],
        [1],
        [None],
        "2026-02-29T00:00Z",
    ]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(item, (*path, key))
    return found


@st.composite
def changed(draw: st.DrawFn) -> dict[str, Any]:
    fields = copy.deepcopy(draw(st.sampled_from([original(), own()])))
    path = draw(st.sampled_from(places(fields)))
    parent = fields
    for part in path[:-1]:
        parent = parent[part]
    if draw(st.booleans()):
        parent[path[-1]] = draw(REPLACEMENTS)
    elif isinstance(parent, dict):
        del parent[path[-1]]
    return fields


def beyond_the_schema(fields: dict[str, Any]) -> bool:
    """What a JSON Schema cannot say: unique names, as many seeds as samples."""
    names = [one["name"] for one in fields.get("inputs", [])]
    sampling = fields["sampling"]
    return len(set(names)) != len(names) or len(sampling.get("seeds", ())) not in (0, sampling["n"])


@settings(max_examples=500)
@given(changed())
def test_the_schema_accepts_what_the_reader_accepts(fields: dict[str, Any]) -> None:
    valid = VALIDATOR.is_valid(fields)
    try:
        parse_sidecar(json.dumps(fields))
    except SidecarError:
        assert not valid or beyond_the_schema(fields)
    else:
        assert valid


@pytest.mark.parametrize("name", ["schema_version_1", "reenact_replay_v1"])
def test_every_object_of_the_schema_is_closed(name: str) -> None:
    def closed(node: Any) -> bool:
        if isinstance(node, dict):
            open_object = node.get("type") == "object" and node.get("additionalProperties") is not False
            return not open_object and all(map(closed, node.values()))
        return all(map(closed, node)) if isinstance(node, list) else True

    assert closed(SCHEMA["$defs"][name])
    assert Path(SCHEMA["$id"]).name == "replay.schema.json"
