"""Events: read from any order of keys, kept whole, written in canonical form."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import CanonicalizationError
from reenact.trace import (
    HashForm,
    ReplayReader,
    SessionReceipt,
    SessionStart,
    StepComplete,
    StepStatus,
    ToolCall,
    UnknownEvent,
    canonical_hash,
    command_output,
    form_of,
    output_preview,
    read_event,
)
from reenact.trace.events import FIELDS, KINDS
from tests.trace.samples import EIGHT_LINES, at, session


def test_the_formats_own_eight_lines_are_read_and_said_again_in_order() -> None:
    lines = EIGHT_LINES.read_text(encoding="utf-8").splitlines()
    events = list(ReplayReader.from_file(EIGHT_LINES).events)
    assert [type(event).__name__ for event in events] == list(KINDS)
    again = [event.to_canonical_json() for event in events]
    assert [json.loads(line) for line in again] == [json.loads(line) for line in lines]
    assert again == [json.dumps(json.loads(line), sort_keys=True, separators=(",", ":")) for line in lines]
    assert sum(line != other for line, other in zip(lines, again, strict=True)) == 3  # three are not sorted


def test_the_shared_examples_are_read_and_reproduced(shared: Path) -> None:
    folder = shared / "vectors" / "replay_jsonl"
    logs = sorted(folder.glob("REPLAY*.jsonl"))
    assert len(logs) == 2
    for log in logs:
        reader = ReplayReader.from_file(log)
        for line, event in zip(log.read_text().splitlines(), reader.events, strict=True):
            expected = {k.replace("policy_bundle_id", "policy_version"): v for k, v in json.loads(line).items()}
            assert json.loads(event.to_canonical_json()) == expected
        assert (reader.total_latency_ms(), reader.average_step_utility()) == (45, 0.8)
    for file in folder.glob("RECEIPT*.json"):
        receipt, given = SessionReceipt.from_file(file), json.loads(file.read_text())
        again = json.loads(receipt.to_canonical_json())
        assert {key: again[key] for key in given if key != "verification"} == {
            key: value for key, value in given.items() if key != "verification"
        }
        assert given["verification"].items() <= again["verification"].items()
        assert SessionReceipt.from_json(receipt.to_canonical_json().encode()) == receipt
    vectors = json.loads((folder / "payload_hash_vectors.v1.json").read_text())["vectors"]
    assert len(vectors) == 5
    for vector in vectors:
        assert canonical_hash(vector["payload"]) == vector["sha256"]
        assert form_of(vector["payload"], vector["sha256"]) is HashForm.RFC_8785


def test_unknown_fields_and_events_are_kept_and_written_back() -> None:
    line = {"event": "StepComplete", "t": at(1), "step_id": "s", "status": "Failed", "iterations": 2}
    more = {**line, "seq": 7, "extra": {"a": [1]}, "é": None}
    event = read_event(more)
    assert isinstance(event, StepComplete)
    assert (event.status, event.extra) == (StepStatus.Failed, {"seq": 7, "extra": {"a": [1]}, "é": None})
    assert json.loads(event.to_canonical_json()) == more
    other = {"event": "BudgetUpdate", "left": 1.5}
    unknown = read_event(other)
    assert isinstance(unknown, UnknownEvent)
    assert (unknown.event, unknown.t, json.loads(unknown.to_canonical_json())) == ("BudgetUpdate", None, other)


def test_either_name_of_the_policy_is_read() -> None:
    line = {"event": "SessionStart", "t": at(1), "session_id": "s"}
    old, new = read_event({**line, "policy_bundle_id": "v1"}), read_event({**line, "policy_version": "v1"})
    assert old == new
    assert isinstance(old, SessionStart)
    assert (old.policy_version, old.issue_number, old.extra) == ("v1", None, {})
    both = read_event({**line, "policy_version": "v1", "policy_bundle_id": "v2"})
    assert isinstance(both, SessionStart)
    assert (both.policy_version, both.extra) == ("v1", {"policy_bundle_id": "v2"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"event": None}, "`event`"),
        ({"t": None}, "$.t"),
        ({"t": "yesterday"}, "a time is expected"),
        ({"t": "2026-02-31T00:00:00Z"}, "day is out of range"),
        ({"t": "2026-01-13T10:00:00Z\n"}, "a time is expected"),
        ({"step_utility": 1.01}, "$.step_utility"),
        ({"step_utility": True}, "$.step_utility"),
        ({"latency_ms": -1}, "$.latency_ms"),
        ({"exit_code": "0"}, "$.exit_code"),
        ({"id": 7}, "$.id"),
    ],
)
def test_what_is_no_event_is_refused_with_the_field(change: dict[str, Any], says: str) -> None:
    line = {"event": "ToolResult", "t": at(1), "id": "a", "output_hash": "x", "step_utility": 1, "latency_ms": 1}
    read_event(line)
    with pytest.raises(ValueError, match=re.escape(says)):
        read_event({**line, **change})
    for required in ("t", "id", "output_hash", "step_utility", "latency_ms"):
        with pytest.raises(ValueError, match=f"`{required}`"):
            read_event({key: value for key, value in line.items() if key != required})


FOREIGN: list[tuple[Any, str]] = [
    ({"b": 1.0, "a": 2}, '{"a":2,"b":1.0}'),
    ({"\U0001f600": 1, "\uffff": 2}, '{"\uffff":2,"\U0001f600":1}'),
    ([1e16, 1e15, -0.0, 1e-5, 1e-6, 123456.5, 1.5e300, 0.1, 5e-324],
     "[1e16,1000000000000000.0,-0.0,0.00001,1e-6,123456.5,1.5e300,0.1,5e-324]"),
    ({"id": 2**63 + 1}, '{"id":9223372036854775809}'),
    ({"id": 2**60, "x": 1.0}, '{"id":1152921504606846976,"x":1.0}'),
    ({"a": 'q"\\\n\u0001é', "b": [], "c": {}, "d": None, "e": True},
     '{"a":"q\\"\\\\\\n\\u0001é","b":[],"c":{},"d":null,"e":true}'),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), FOREIGN)
def test_hashes_of_other_producers_are_recognised_and_named(value: Any, text: str) -> None:
    expected = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    try:
        same = canonical_hash(value) == expected
    except CanonicalizationError:
        same = False
    assert form_of(value, expected) is (HashForm.RFC_8785 if same else HashForm.CODE_POINTS)
    assert form_of([value], expected) is None


def test_what_is_shown_is_cut_by_code_points_and_hashes_are_not() -> None:
    face = "\U0001f469\u200d\U0001f4bb"
    assert output_preview("é" * 2000) == "é" * 2000
    assert output_preview("a" * 1000 + "x" + "b" * 1000) == "a" * 1000 + "..." + "b" * 1000
    assert output_preview({"b": 1, "a": "é"}) == '{"a":"é","b":1}'
    long = face * 4000
    cut = command_output(long)
    assert cut == long[:5000] + "..." + long[-5000:]
    assert command_output("x" * 10_000) == "x" * 10_000
    assert canonical_hash(long) != canonical_hash(cut)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(params=json_values, extra=st.dictionaries(st.text("abcxyz", min_size=1), json_values, max_size=3))
def test_an_event_is_read_back_as_it_was_written(params: Any, extra: dict[str, Any]) -> None:
    extra = {key: value for key, value in extra.items() if key not in (*FIELDS["ToolCall"], "event")}
    event = ToolCall(t=at(1), id="a", tool="x", params=params, params_hash="h", step_id="s", extra=extra)
    line = event.to_canonical_json()
    again = next(iter(ReplayReader.from_bytes(_header() + line.encode() + b"\n").tool_calls()))
    assert again.to_canonical_json() == line
    assert form_of(again.params, canonical_hash(params)) is HashForm.RFC_8785


def _header() -> bytes:
    return session()[0].to_canonical_json().encode() + b"\n"
