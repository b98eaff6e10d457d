"""The published vectors and schemas of the replay log, against what reads and writes it here."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from reenact.errors import ReplayLogError
from reenact.trace import HashForm, ReplayReader, SessionReceipt, form_of, read_event, verify_replay
from reenact.trace.events import FIELDS, KINDS
from reenact.trace.hashing import wide_integer
from reenact.trace.receipt import ReceiptToolCall, ReceiptVerification
from reenact.values.parse import read
from tests.spec.corpus import mutations

ROOT = Path(__file__).resolve().parents[2]
VECTORS: dict[str, Any] = json.loads((ROOT / "test_vectors" / "replay_log.json").read_text(encoding="utf-8"))
LOG: bytes = VECTORS["log"].encode()


def test_the_log_is_read_summed_and_written_again() -> None:
    reader = ReplayReader.from_bytes(LOG)
    assert "".join(event.to_canonical_json() + "\n" for event in reader.events).encode() == LOG
    summary = reader.summary()
    assert {name: getattr(summary, name) for name in VECTORS["sums"]} == pytest.approx(VECTORS["sums"])


def test_the_receipt_fits_and_is_written_again() -> None:
    receipt = SessionReceipt.from_json(json.dumps(VECTORS["receipt"]).encode())
    assert json.loads(receipt.to_canonical_json()) == VECTORS["receipt"]
    assert verify_replay(ReplayReader.from_bytes(LOG), receipt).mismatches == []


@pytest.mark.parametrize("case", VECTORS["differing"], ids=lambda case: case["pointer"])
def test_a_changed_receipt_is_told(case: dict[str, Any]) -> None:
    receipt = json.loads(json.dumps(VECTORS["receipt"]))
    *path, last = case["pointer"].split("/")[1:]
    place: Any = receipt
    for token in path:
        place = place[int(token)] if isinstance(place, list) else place[token]
    place[last] = case["value"]
    result = verify_replay(ReplayReader.from_bytes(LOG), SessionReceipt.from_json(json.dumps(receipt).encode()))
    assert result.mismatches[0] == case["mismatch"]


@pytest.mark.parametrize("case", VECTORS["bad"], ids=lambda case: case["name"])
def test_a_log_that_is_none_is_refused_at_its_place(case: dict[str, Any]) -> None:
    with pytest.raises(ReplayLogError) as caught:
        list(ReplayReader.from_bytes(bytes.fromhex(case["log"])).events)
    error = caught.value
    assert (error.code, error.line, error.offset) == (case["code"], case["line"], case["offset"])


@pytest.mark.parametrize("case", VECTORS["hashes"], ids=lambda case: case["json"])
def test_both_forms_of_a_hash_are_known(case: dict[str, Any]) -> None:
    value = read(case["json"], "it", wide_integer)
    assert case["rfc_8785"] is None or form_of(value, case["rfc_8785"]) is HashForm.RFC_8785
    assert form_of(value, case["code_points"]) is HashForm.CODE_POINTS


@cache
def schema(name: str) -> tuple[dict[str, Any], Any]:
    file = ROOT / "src" / "reenact" / "trace" / f"{name}.schema.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    jsonschema_rs.meta.validate(document)
    return document, jsonschema_rs.Draft202012Validator(document)


def test_the_schema_of_events_says_what_the_reader_does() -> None:
    document, valid = schema("replay_event")
    assert document["$id"] == "https://reenact.invalid/schemas/replay_event.schema.json"
    assert set(document["$defs"]) - {"t", "hash"} == set(KINDS)
    for name, fields in FIELDS.items():
        assert set(document["$defs"][name]["properties"]) == {*fields, "event"} | (
            {"policy_bundle_id"} if name == "SessionStart" else set()
        )
    compared = 0
    for line in LOG.splitlines():
        event = json.loads(line)
        valid.validate(event)
        for what, mutant in mutations(event):
            try:
                read_event(mutant)
            except ValueError:
                reads = False
            else:
                reads = True
            assert valid.is_valid(mutant) == reads, (event["event"], what)
            compared += 1
    assert compared > 900


def test_the_schema_of_receipts_says_what_the_reader_does() -> None:
    document, valid = schema("session_receipt")
    assert document["$id"] == "https://reenact.invalid/schemas/session_receipt.schema.json"
    names = {*SessionReceipt.__struct_fields__, "ended_at", "policy_bundle_id"} - {"extra"}
    assert set(document["properties"]) == names
    for part, kind in (("call", ReceiptToolCall), ("verification", ReceiptVerification)):
        assert set(document["$defs"][part]["properties"]) == set(kind.__struct_fields__) - {"extra"}
    receipt = VECTORS["receipt"]
    valid.validate(receipt)
    old = {key: value for key, value in receipt.items() if key not in ("completed_at", "policy_version")}
    new = {key: value for key, value in receipt.items() if key not in ("ended_at", "policy_bundle_id")}
    for shape in (old, new):
        for what, mutant in mutations(shape):
            try:
                SessionReceipt.from_json(json.dumps(mutant).encode())
            except Exception:
                reads = False
            else:
                reads = True
            assert valid.is_valid(mutant) == reads, what


def test_the_page_is_right_where_it_prints_bytes_and_its_program_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "spec" / "replay_jsonl.md").read_text(encoding="utf-8")
    assert LOG.decode() in page
    receipt = next(json.loads(block) for block in re.findall(r"```json\n(.*?)\n```", page, re.DOTALL))
    assert receipt == VECTORS["receipt"]
    assert receipt["replay_hash"] == "sha256:" + hashlib.sha256(LOG).hexdigest()
    [program] = re.findall(r"```python\n(.*?)\n```", page, re.DOTALL)
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    codes = set(re.findall(r"`(REPLAY_[A-Z_]+)`", page))
    sources = "".join(path.read_text() for path in (ROOT / "src" / "reenact" / "trace").glob("*.py"))
    assert codes == set(re.findall(r'"(REPLAY_[A-Z_]+)"', sources))
