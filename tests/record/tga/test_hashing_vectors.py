"""The shared vectors of digests, and the locked schemas by name.

Digests are ours too. The refusals in that file are those of a gateway that looks into the documents in a call's
arguments; we do not, since arguments and documents stand behind salted commitments: what each of the four is about is
caught there by what is said below.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tools.vectors.scenarios import refusals, session, three_steps

from reenact import canonicalize
from reenact.contracts.tool_registry import DocumentSpec, read_tool_registry
from reenact.errors import ChecksumMismatch, PlanError
from reenact.values.digest import digest, sha256_hex
from reenact.values.envelope import open_envelope
from tests.conftest import ROOT

REFUSALS = {"DOC_HASH_MISMATCH", "DOC_SIZE_EXCEEDED", "DOC_ENCODING_INVALID", "DOC_POINTER_INVALID"}


@pytest.fixture
def tga(shared: Path) -> Path:
    return shared / "vectors" / "tga"


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_digests_of_calls_and_documents_are_ours(tga: Path) -> None:
    vectors = load(tga / "related" / "hashing_vectors.json")
    assert len(vectors["tool_call_vectors"]) == 3
    for case in vectors["tool_call_vectors"]:
        assert digest(case["input"]) == case["digest"], case["description"]
    kinds = {case["doc_type"]: case for case in vectors["document_vectors"]}
    assert set(kinds) == {"json", "bytes"}
    assert digest(kinds["json"]["input"]) == kinds["json"]["digest"]
    assert sha256_hex(base64.b64decode(kinds["bytes"]["input_b64"])) == kinds["bytes"]["digest"]


def test_one_changed_value_is_another_digest(tga: Path) -> None:
    for case in load(tga / "related" / "hashing_vectors.json")["tool_call_vectors"]:
        assert digest({**case["input"], "tool_name": case["input"]["tool_name"] + "x"}) != case["digest"]


def test_a_document_of_another_hash_is_refused(tga: Path) -> None:
    """DOC_HASH_MISMATCH: a value that is not the one that its commitment names is never handed out."""
    case = refused(tga, "DOC_HASH_MISMATCH")
    envelope = bytes(32) + canonicalize(case["args"])
    assert open_envelope(envelope, sha256_hex(envelope)) == case["args"]
    for expected in ("badhash", sha256_hex(canonicalize(case["args"]))):
        with pytest.raises(ChecksumMismatch, match="commitment"):
            open_envelope(envelope, expected)


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("DOC_SIZE_EXCEEDED", {"max_write_bytes": 5_242_881}),
        ("DOC_ENCODING_INVALID", {"content_encoding": "base-64!"}),
        ("DOC_POINTER_INVALID", {"write_content_pointers": ["missing"]}),
    ],
)
def test_what_a_registry_says_of_documents_has_its_form(tga: Path, code: str, change: dict[str, object]) -> None:
    """The limits are for whoever opens the documents: they are read, and refused where they are none."""
    spec = {"max_read_bytes": 1, "max_batch_bytes": 1, **refused(tga, code)["doc_spec"]}
    read = read_tool_registry(registry(spec)).tools[0].document_spec
    assert isinstance(read, DocumentSpec)
    assert read.max_write_bytes == spec["max_write_bytes"]
    with pytest.raises(PlanError, match="document_spec"):
        read_tool_registry(registry({**spec, **change}))


def test_the_shared_refusals_are_these_four(tga: Path) -> None:
    cases = load(tga / "related" / "hashing_vectors.json")["negative_validation_vectors"]
    assert {case["error_code"] for case in cases} == REFUSALS


def refused(tga: Path, code: str) -> Any:
    cases = load(tga / "related" / "hashing_vectors.json")["negative_validation_vectors"]
    (case,) = (case for case in cases if case["error_code"] == code)
    return case


def registry(spec: dict[str, object]) -> dict[str, object]:
    tool = {"tool_name": "write", "tool_class": "write", "is_document_op": True, "document_spec": spec}
    return {
        "schema_id": "talos.mcp.tool_registry",
        "schema_version": "v1",
        "server_id": "docs",
        "server_version": "1.0.0",
        "tools": [tool],
    }


def test_every_locked_schema_is_one_of_ours_and_takes_what_we_write(tga: Path) -> None:
    named = {path.name.removesuffix(".schema.json") for path in (tga / "schemas").glob("*.schema.json")}
    ours = {path.name.removesuffix(".schema.json") for path in (ROOT / "schemas" / "tga" / "v1").glob("*.schema.json")}
    assert named == ours | {"mcp.tool_registry"}
    locked = {name: jsonschema_rs.validator_for(load(tga / "schemas" / f"{name}.schema.json")) for name in named}
    seen: set[str] = set()
    for run in (three_steps(), refusals(), session()):
        for line in b"".join(run.bodies).splitlines():
            for name, record in records(json.loads(line)):
                locked[name].validate(record)
                seen.add(name)
    assert seen == named - {"mcp.tool_registry", "execution_state"}
    for case in load(tga / "related" / "tool_registry_vectors.json")["valid_cases"]:
        locked["mcp.tool_registry"].validate(case["data"])
    for link in load(tga / "derived" / "locked_profile_chain.json")["chain"]:
        locked["execution_state"].validate(link["state_after"])


def records(line: dict[str, Any]) -> list[tuple[str, Any]]:
    if line["kind"] == "entry":
        return [("execution_log_entry", line["entry"]), (line["entry"]["artifact_type"], line["artifact"])]
    return [("execution_checkpoint", line["checkpoint"])] if line["kind"] == "checkpoint" else []
