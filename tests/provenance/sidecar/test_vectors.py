"""The sidecars that the original accepts are ours to read, and what it says about the others we say too."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from reenact.provenance import SidecarError, SidecarVersionError, parse_sidecar, serialize_sidecar
from reenact.provenance.yaml.javascript import pretty
from tests.provenance.sidecar.samples import SCHEMA_FILE
from tests.provenance.vector_files import load

VECTORS = load("schema_vectors")
NAMES = [vector["name"] for vector in VECTORS]


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_a_sidecar_is_accepted_exactly_when_the_original_accepts_it(vector: dict[str, Any]) -> None:
    if vector["accepted"]:
        parse_sidecar(vector["json_text"])
    else:
        with pytest.raises(SidecarError):
            parse_sidecar(vector["json_text"])


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if "issues" in vector])
def test_what_is_wrong_is_listed_as_the_original_lists_it(vector: dict[str, Any]) -> None:
    if vector["accepted"]:
        return
    with pytest.raises(SidecarError) as caught:
        parse_sidecar(vector["json_text"])
    assert pretty(list(caught.value.issues)) == pretty(vector["issues"])


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if vector.get("issues")])
def test_the_message_is_one_line_with_the_path_of_a_field(vector: dict[str, Any]) -> None:
    with pytest.raises(SidecarError) as caught:
        parse_sidecar(vector["json_text"])
    message = str(caught.value)
    assert message.isprintable()
    if not isinstance(caught.value, SidecarVersionError):
        path = vector["issues"][0]["path"]
        assert str(path[-1] if path else "the top level") in message


def test_accepted_sidecars_that_are_laid_out_as_the_original_does_are_written_back_byte_for_byte() -> None:
    texts = [pretty(json.loads(vector["json_text"])) + "\n" for vector in VECTORS if vector["accepted"]]
    kept = [text for text in texts if "Infinity" not in text and "null" in text]
    assert len(kept) > 20
    for text in kept:
        assert serialize_sidecar(parse_sidecar(text)) == text


def test_sidecars_that_the_original_wrote_are_written_back_byte_for_byte() -> None:
    cases = load("cli_cases")
    written = {
        file["text"]
        for case in cases
        for name, file in case["files"].items()
        if name.endswith(".replay.json") and "text" in file and case["exit"] == 0 and "dup-keys" not in case["name"]
    }
    assert written
    for text in written:
        assert serialize_sidecar(parse_sidecar(text)) == text


def test_the_published_schema_agrees_with_the_reader_on_every_vector(root: Any) -> None:
    schema = json.loads((root / SCHEMA_FILE).read_text(encoding="utf-8"))
    jsonschema_rs.meta.validate(schema)
    validator = jsonschema_rs.Draft202012Validator(schema)
    checked = 0
    for vector in VECTORS:
        # Not every JSON reader has infinities, which 1E400 is in JavaScript.
        if "json_error" in vector or "1E400" in vector["name"]:
            continue
        checked += 1
        assert validator.is_valid(json.loads(vector["json_text"])) == vector["accepted"], vector["name"]
    assert checked > 90
