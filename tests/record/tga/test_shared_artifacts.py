"""The shared artifacts against our own schemas and records: the golden ones fit, the adversarial ones are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from reenact.contracts.tool_registry import read_tool_registry
from reenact.errors import PlanError
from reenact.journal import chain
from tests.conftest import ROOT

SCHEMAS = ROOT / "schemas" / "tga" / "v1"


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def validator(name: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(load(SCHEMAS / f"{name}.schema.json"))


def test_every_golden_artifact_fits_our_schema_and_our_record_and_its_digest_recomputes(shared: Path) -> None:
    golden = load(shared / "vectors" / "tga" / "locked" / "golden_trace_chain.json")
    assert len(golden) == 4
    for name, artifact in golden.items():
        validator(name).validate(artifact)
        record = msgspec.convert(artifact, chain.ARTIFACT_TYPES[name])
        assert chain.artifact_digest(record) == artifact["_digest"]
        assert json.loads(chain.encode(record)) == artifact


def test_adversarial_artifacts_are_refused_by_our_schemas(shared: Path) -> None:
    vectors = load(shared / "vectors" / "tga" / "locked" / "adversarial_vectors.json")
    cases = [case for group in vectors.values() for case in group]
    assert len(cases) == 3
    for case in cases:
        name = case["input"]["schema_id"].removeprefix("talos.tga.")
        with pytest.raises(jsonschema_rs.ValidationError):
            validator(name).validate(case["input"])


def test_registries_are_read_and_refused_as_the_shared_vectors_say(shared: Path) -> None:
    vectors = load(shared / "vectors" / "tga" / "related" / "tool_registry_vectors.json")
    for case in vectors["valid_cases"]:
        assert read_tool_registry(case["data"]).tools
    for case in vectors["invalid_cases"]:
        with pytest.raises(PlanError):
            read_tool_registry(case["data"])
