"""Logs of one trace: our own vectors and the shared ones, through the verifier's chain."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from tools.vectors.log_vectors import ACTIONS, chain

from reenact.verify.entries import TERMINAL, EntryChain, entry_digest
from tests.conftest import ROOT

VECTORS = json.loads((ROOT / "test_vectors/tga/state_transition_vectors.json").read_text(encoding="utf-8"))


def hexdigest(value: Any) -> str:
    """Independent of every line of ours."""
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def without(record: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != key}


def first_refused(entries: list[dict[str, Any]]) -> tuple[int, str] | None:
    log = EntryChain()
    for number, entry in enumerate(entries, start=1):
        problem = log.append(entry)
        if problem is not None:
            return number, problem.code
    return None


def folded(entries: list[dict[str, Any]]) -> str:
    log = EntryChain()
    for entry in entries:
        assert log.append(entry) is None
    return log.state


@pytest.mark.parametrize("case", VECTORS["valid"], ids=lambda case: case["name"])
def test_a_valid_log_folds_to_its_state(case: dict[str, Any]) -> None:
    assert folded(case["entries"]) == case["final_state"]


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=lambda case: case["name"])
def test_an_invalid_log_is_refused_at_its_bad_entry_with_its_code(case: dict[str, Any]) -> None:
    assert first_refused(case["entries"]) == (case["bad_entry"], case["code"])


@pytest.mark.parametrize("case", VECTORS["recovery"], ids=lambda case: case["name"])
def test_recovery_dispatches_only_a_call_without_an_effect(case: dict[str, Any]) -> None:
    state = folded(case["log"])
    kinds = {entry["artifact_type"] for entry in case["log"]}
    assert state == case["state"]
    assert ACTIONS[state] == case["action"]
    assert case["dispatches"] == ("tool_call" in kinds and "tool_effect" not in kinds)
    assert case["action"].startswith("RETURN") == (state in TERMINAL)


def test_every_code_of_the_log_has_a_vector() -> None:
    assert {case["code"] for case in VECTORS["invalid"]} == {
        "STATE_SEQUENCE_GAP",
        "STATE_CHECKSUM_MISMATCH",
        "STATE_INVALID_TRANSITION",
        "MISSING_TOOL_CALL_ID",
    }


def test_the_golden_chain_recomputes_with_another_implementation() -> None:
    golden = json.loads((ROOT / "test_vectors/tga/golden_chain.json").read_text(encoding="utf-8"))["chain"]
    assert [link["artifact"]["schema_id"].removeprefix("talos.tga.") for link in golden] == [
        "action_request",
        "supervisor_decision",
        "tool_call",
        "tool_effect",
    ]
    head = "0" * 64
    for link in golden:
        artifact, entry, state, checkpoint = (link[k] for k in ("artifact", "entry", "state", "checkpoint"))
        for record, key, preimage in (
            (artifact, "_digest", link["artifact_preimage"]),
            (entry, "entry_digest", link["entry_preimage"]),
        ):
            assert rfc8785.dumps(without(record, key)).decode() == preimage
            assert hashlib.sha256(preimage.encode()).hexdigest() == record[key]
        assert entry["artifact_digest"] == artifact["_digest"]
        assert entry["prev_entry_digest"] == head
        assert hexdigest(without(state, "state_digest")) == state["state_digest"]
        assert hexdigest(checkpoint["checkpoint_state"]) == checkpoint["checkpoint_digest"]
        head = entry["entry_digest"]
    assert folded([link["entry"] for link in golden]) == "COMPLETED"


def completed(partial: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The shared vectors leave out what they do not test: fill it in, keep what they give."""
    steps = [(entry["from_state"], entry["to_state"], entry["artifact_type"]) for entry in partial]
    return chain(steps, dict(enumerate(partial)))


def shared_log_vectors(shared: Path) -> dict[str, Any]:
    path = shared / "vectors" / "tga" / "locked" / "state_transition_vectors.json"
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def test_the_shared_valid_and_invalid_transitions_are_judged_as_they_say(shared: Path) -> None:
    vectors = shared_log_vectors(shared)
    for case in vectors["valid_transitions"]:
        assert first_refused(completed(case["entries"])) is None, case["description"]
    for case in vectors["invalid_transitions"]:
        refused = first_refused(completed(case["entries"]))
        assert refused == (len(case["entries"]), case["expected_error"]), case["description"]
    assert len(vectors["valid_transitions"]) == 3
    assert len(vectors["invalid_transitions"]) == 6


def test_the_shared_recovery_vectors_end_where_they_say(shared: Path) -> None:
    ours = {
        "RE_DISPATCH_SAME_TOOL_CALL": "DISPATCH_THE_SAME_TOOL_CALL",
        "REPLAY_ONLY_NO_DISPATCH": "RETURN_THE_RECORDED_EFFECT",
    }
    for case in shared_log_vectors(shared)["recovery_vectors"]:
        assert ACTIONS[folded(completed(case["initial_log"]))] == ours[case["recovery_action"]]


def test_the_shared_locked_chain_recomputes_and_folds(shared: Path) -> None:
    path = shared / "vectors" / "tga" / "derived" / "locked_profile_chain.json"
    links = json.loads(path.read_text(encoding="utf-8"))["chain"]
    for link in links:
        assert entry_digest(link["entry"]) == link["entry"]["entry_digest"]
    assert folded([link["entry"] for link in links]) == "COMPLETED"
