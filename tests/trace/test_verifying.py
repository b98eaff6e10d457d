"""A log against its receipt: whatever was changed on either side is found, and named as the format says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import ReceiptError, ReplayLogError, UsageError
from reenact.trace import (
    HashForm,
    PlanStart,
    ReceiptToolCall,
    ReceiptVerification,
    ReplayEvent,
    ReplayReader,
    SessionEnd,
    SessionReceipt,
    SessionStart,
    ToolCall,
    ToolResult,
    Verification,
    canonical_hash,
    verify_replay,
)
from reenact.trace import receipt as receipts
from reenact.trace.receipt import CallsInFile
from tests.trace.samples import at, call_pair, reader_of, receipt_of, session, text_of

EVENTS = session(4)
RECEIPT = receipt_of(EVENTS)
NONE = ReceiptVerification()
ZEROS = "sha256:" + "0" * 64


def changed(receipt: SessionReceipt, place: int, **fields: Any) -> SessionReceipt:
    calls = list(receipt.tool_calls)
    calls[place] = msgspec.structs.replace(calls[place], **fields)
    return msgspec.structs.replace(receipt, tool_calls=calls)


def test_a_log_and_its_receipt_say_the_same() -> None:
    for events in (reader_of(EVENTS), reader_of(EVENTS).events, EVENTS):
        result = verify_replay(events, RECEIPT)
        assert (result.success, result.mismatches, result.calls) == (True, [], 4)
        assert result.hash_forms == {HashForm.RFC_8785.value: 4}


def test_another_output_is_told_in_the_formats_own_words() -> None:
    result = verify_replay(EVENTS, changed(RECEIPT, 1, output_hash=ZEROS))
    got = RECEIPT.tool_calls[1].output_hash
    assert not result.success
    assert result.mismatches == [f"Tool file_read output mismatch: expected {ZEROS}, got {got}"]


def without(receipt: SessionReceipt, place: int) -> SessionReceipt:
    calls = [call for number, call in enumerate(receipt.tool_calls) if number != place]
    return msgspec.structs.replace(receipt, tool_calls=calls)


def in_order(receipt: SessionReceipt, *places: int) -> SessionReceipt:
    return msgspec.structs.replace(receipt, tool_calls=[receipt.tool_calls[place] for place in places])


def checked(**fields: Any) -> ReceiptVerification:
    return msgspec.structs.replace(RECEIPT.verification, **fields)


RECEIPTS: dict[str, tuple[SessionReceipt, str]] = {
    "params": (changed(RECEIPT, 0, params_hash=ZEROS), "Tool file_read params mismatch"),
    "tool": (changed(RECEIPT, 0, tool="shell"), "Tool shell name mismatch: expected shell, got file_read"),
    "utility": (changed(RECEIPT, 3, step_utility=1.0), "step_utility mismatch: expected 1.0, got 0.2"),
    "latency": (changed(RECEIPT, 3, latency_ms=1), "latency_ms mismatch: expected 1, got 14"),
    "one missing": (without(RECEIPT, 1), "(tc_2) is in the replay log, but not in the receipt"),
    "the last missing": (without(RECEIPT, 3), "(tc_4) is in the replay log, but not in the receipt"),
    "one more": (
        msgspec.structs.replace(
            RECEIPT, tool_calls=[*RECEIPT.tool_calls, msgspec.structs.replace(RECEIPT.tool_calls[0], id="tc_9")]
        ),
        "(tc_9) is in the receipt, but not in the replay log",
    ),
    "one twice": (in_order(RECEIPT, 0, 1, 1, 2, 3), "(tc_2) is in the receipt, but not in the replay log"),
    "another order": (in_order(RECEIPT, 0, 2, 1, 3), "the receipt has tc_3 before tc_2, the replay log does not"),
    "reversed": (in_order(RECEIPT, 3, 2, 1, 0), "Tool calls are in another order"),
    "another session": (msgspec.structs.replace(RECEIPT, session_id="sess_2"), "Session id mismatch"),
    "another plan": (msgspec.structs.replace(RECEIPT, plan_hash=ZEROS), "Plan hash mismatch"),
    "another policy": (msgspec.structs.replace(RECEIPT, policy_version="v2"), "Policy version mismatch"),
    "another issue": (msgspec.structs.replace(RECEIPT, issue_number=7), "Issue number mismatch: expected 7, got 42"),
    "more confidence": (
        msgspec.structs.replace(RECEIPT, final_confidence=1.0),
        "Confidence mismatch: expected 1.0, got 0.92",
    ),
    "tests that passed": (
        msgspec.structs.replace(RECEIPT, verification=checked(exit_codes=[1])),
        "Verification mismatch: expected 1 commands, exit codes 1, delta 3; got 1 commands, exit codes 0, delta 3",
    ),
    "another command": (
        msgspec.structs.replace(RECEIPT, verification=checked(commands_run=["true"])),
        "Verification mismatch",
    ),
    "another delta": (
        msgspec.structs.replace(RECEIPT, verification=checked(verification_delta=4)),
        "Verification mismatch",
    ),
    "a verification left out": (
        msgspec.structs.replace(RECEIPT, verification=ReceiptVerification()),
        "A verification is in the replay log, but not in the receipt",
    ),
    "other bytes": (msgspec.structs.replace(RECEIPT, replay_hash=ZEROS), "Replay hash mismatch"),
}


@pytest.mark.parametrize("name", RECEIPTS)
def test_a_changed_receipt_is_found(name: str) -> None:
    receipt, says = RECEIPTS[name]
    for events in (reader_of(EVENTS), EVENTS):
        result = verify_replay(events, receipt)
        assert not result.success
        assert any(says in text for text in result.mismatches), result.mismatches


def of(kind: type, change: Callable[[Any], Any]) -> list[ReplayEvent]:
    """The log with the second event of a kind changed."""
    place = [number for number, event in enumerate(EVENTS) if isinstance(event, kind)][1]
    return [change(event) if number == place else event for number, event in enumerate(EVENTS)]


LOGS: dict[str, tuple[list[ReplayEvent], str]] = {
    "parameters under the old hash": (
        of(ToolCall, lambda event: msgspec.structs.replace(event, params={"path": "/etc/shadow"})),
        "its params do not have the hash",
    ),
    "a result lost": (
        [event for event in EVENTS if not (isinstance(event, ToolResult) and event.id == "tc_2")],
        "(tc_2) has no result in the replay log",
    ),
    "no verification": (
        [event for event in EVENTS if not isinstance(event, Verification)],
        "A verification is in the receipt, but not in the replay log",
    ),
    "the last line cut": (EVENTS[:-1], "Session end mismatch: expected 2026-01-13T10:01:31Z, got no SessionEnd"),
    "whose session it is": (
        [event for event in EVENTS if not isinstance(event, SessionStart)],
        "Session id mismatch: expected sess_1, got no SessionStart",
    ),
    "whose plan it is": (
        [event for event in EVENTS if not isinstance(event, PlanStart)],
        "Plan hash mismatch: expected sha256:",
    ),
    "the end cut": (EVENTS[:6], "(tc_4) is in the receipt, but not in the replay log"),
    "all of it gone": (EVENTS[:1], "(tc_1) is in the receipt, but not in the replay log"),
    "a call more": ([*EVENTS[:-1], *call_pair(9), EVENTS[-1]], "(tc_9) is in the replay log, but not in the receipt"),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_changed_log_is_found_also_without_its_hash(name: str) -> None:
    events, says = LOGS[name]
    for receipt in (RECEIPT, msgspec.structs.replace(RECEIPT, replay_hash=None)):
        result = verify_replay(reader_of(events), receipt)
        assert not result.success
        assert any(says in text for text in result.mismatches), result.mismatches


def test_calls_side_by_side_may_be_listed_as_they_were_made_or_as_they_ended() -> None:
    (one, one_done), (two, two_done) = call_pair(1), call_pair(2)
    events: list[ReplayEvent] = [*EVENTS[:3], one, two, two_done, one_done, EVENTS[-1]]
    for order in ([two_done, one_done], [one_done, two_done]):
        receipt = receipt_of([*EVENTS[:3], one, two, *order])
        assert verify_replay(events, msgspec.structs.replace(receipt, replay_hash=None)).mismatches == []


def test_a_call_that_neither_side_has_a_result_for_is_no_mismatch() -> None:
    events = [*EVENTS, call_pair(9)[0]]
    receipt = msgspec.structs.replace(RECEIPT, replay_hash=None)
    assert verify_replay(events, receipt).mismatches == []


def test_hashes_of_another_producer_fit_and_it_is_said() -> None:
    line = '{"a":2,"b":1.0}'
    events = [*EVENTS[:3], *call_pair(1), *call_pair(2), EVENTS[-1]]
    call = events[3]
    assert isinstance(call, ToolCall)
    theirs = "sha256:" + hashlib.sha256(line.encode()).hexdigest()
    events[3] = msgspec.structs.replace(call, params=json.loads(line), params_hash=theirs)
    result = verify_replay(events, receipt_of(events))
    assert result.mismatches == []
    assert result.hash_forms == {HashForm.CODE_POINTS.value: 1, HashForm.RFC_8785.value: 1}


def test_verifications_are_summed_up_or_the_last_one_is_told_or_how_ci_ended() -> None:
    one, two = (
        Verification(t=at(n), commands=[f"make {n}"], exit_codes=[n], verification_delta=n + 1) for n in range(2)
    )
    events = [*EVENTS[:3], one, two, EVENTS[-1]]
    receipt = msgspec.structs.replace(RECEIPT, tool_calls=[], replay_hash=None)
    for said, fits in (
        (ReceiptVerification(commands_run=["make 0", "make 1"], exit_codes=[0, 1], verification_delta=3), True),
        (ReceiptVerification(commands_run=["make 1"], exit_codes=[1], verification_delta=2), True),
        (ReceiptVerification(verification_delta=3, ci_status="fail"), True),
        (ReceiptVerification(verification_delta=4, ci_status="fail"), False),
        (ReceiptVerification(verification_delta=3), False),
        (ReceiptVerification(commands_run=["make 0"], exit_codes=[0], verification_delta=1), False),
        (ReceiptVerification(commands_run=["make 0", "make 1"], exit_codes=[0], verification_delta=3), False),
    ):
        result = verify_replay(events, msgspec.structs.replace(receipt, verification=said))
        assert result.success is fits, (said, result.mismatches)


def test_numbers_of_single_precision_fit_however_they_were_printed() -> None:
    """As producers whose utilities have 32 bits write them: one way in the log, the other in the receipt."""
    events = [*EVENTS[:3], *call_pair(1, utility=0.800000011920929), EVENTS[-1]]
    receipt = msgspec.structs.replace(receipt_of(events), replay_hash=None)
    for utility, fits in ((0.8, True), (0.800000011920929, True), (0.8000001, False), (-0.8, False)):
        assert verify_replay(events, changed(receipt, 0, step_utility=utility)).success is fits


@pytest.mark.parametrize(("log", "said"), [(0.92, 1e300), (-1e300, 0.92), (1e39, 3.5e38)])
def test_a_confidence_that_no_32_bits_hold_is_another_one(log: float, said: float) -> None:
    end = EVENTS[-1]
    assert isinstance(end, SessionEnd)
    events = [*EVENTS[:-1], msgspec.structs.replace(end, confidence=log)]
    result = verify_replay(events, msgspec.structs.replace(RECEIPT, final_confidence=said, replay_hash=None))
    assert result.mismatches == [f"Confidence mismatch: expected {said}, got {log}"]


def test_events_that_somebody_picked_need_no_beginning_and_no_end() -> None:
    assert verify_replay(EVENTS[3:-2], msgspec.structs.replace(RECEIPT, replay_hash=None, verification=NONE)).success


def test_a_log_that_cannot_be_read_is_an_error_and_no_mismatch() -> None:
    with pytest.raises(ReplayLogError):
        verify_replay(ReplayReader.from_bytes(text_of(EVENTS)[:-3]), RECEIPT)


@given(st.permutations(range(6)), st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))
def test_success_is_said_exactly_where_both_sides_have_the_same_calls_in_the_same_order(
    order: list[int], in_log: set[int], in_receipt: set[int]
) -> None:
    events = [event for number in sorted(in_log) for event in call_pair(number)]
    listed = [number for number in order if number in in_receipt]
    receipt = receipt_of([event for number in listed for event in call_pair(number)])
    result = verify_replay(events, msgspec.structs.replace(receipt, replay_hash=None))
    assert result.success == (listed == sorted(in_log))


def test_what_is_too_far_apart_is_not_held_and_not_called_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.trace.verifying.MOST_APART", 5)
    events = [event for number in range(50) for event in call_pair(number)]
    result = verify_replay(events, in_order(receipt_of(events), *reversed(range(50))))
    assert not result.success
    assert "more than 5 calls are on one side only" in result.mismatches[0]
    many = verify_replay(events, msgspec.structs.replace(RECEIPT, tool_calls=[]))
    assert not many.success


def test_thousands_of_mismatches_are_counted_and_not_kept() -> None:
    events = [event for number in range(1200) for event in call_pair(number)]
    calls = [msgspec.structs.replace(call, output_hash=ZEROS) for call in receipt_of(events).tool_calls]
    result = verify_replay(events, msgspec.structs.replace(receipt_of(events), tool_calls=calls))
    assert len(result.mismatches) == 1001
    assert result.mismatches[-1] == "and 200 more"


# -- the receipt -------------------------------------------------------------------------------------------------------


def test_both_shapes_are_read_and_one_is_written_that_has_all_of_either() -> None:
    call = {"id": "a", "tool": "x", "params_hash": "p", "output_hash": "o", "step_utility": -1, "latency_ms": 0}
    first = {
        "session_id": "s", "started_at": at(0), "completed_at": at(1), "issue_number": 42, "plan_hash": "sha256:x",
        "tool_calls": [{**call, "side_effects": [{"type": "file"}]}], "final_confidence": 0.5, "policy_version": "v1",
        "verification": {"commands_run": ["x"], "exit_codes": [1], "verification_delta": -2}, "signature": None,
    }  # fmt: skip
    second = {
        "schema_version": "1.0.0", "session_id": "s", "policy_bundle_id": "v1", "started_at": at(0), "ended_at": at(1),
        "verification": {"tests_before": 1, "tests_after": 2, "verification_delta": 1, "ci_status": "pass"},
        "costs": {"total_tokens": 5, "total_sats": 0}, "tool_calls": [call], "replay_hash": ZEROS, "more": [1],
    }  # fmt: skip
    names = {*first, *second} - {"more"}
    for shape in (first, second):
        receipt = SessionReceipt.from_json(json.dumps(shape).encode())
        written = json.loads(receipt.to_canonical_json())
        assert names <= set(written)
        assert written["completed_at"] == written["ended_at"] == at(1)
        assert written["policy_version"] == written["policy_bundle_id"] == "v1"
        assert set(written["verification"]) == {*first["verification"], *second["verification"]}  # type: ignore[misc]
        assert SessionReceipt.from_json(receipt.to_canonical_json().encode()) == receipt
        assert written.get("more") == shape.get("more")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "ends where a value is expected"),
        (b"[]", "it is no JSON object"),
        (b"{}", "`"),
        (b"\xff", "not UTF-8"),
        (b'{"a":1,"a":2}', "stands twice"),
        (b'{"a":' * 300, "nested deeper"),
        (b'\xef\xbb\xbf{"a":1}', "byte order mark"),
        (b'{"a":"\\udc00"}', "lone surrogate"),
        (b'{"a":"\0"}', "control character"),
        (b'{"completed_at":"a","ended_at":"b"}', "two names for one thing, and differ here"),
        (b'{"tool_calls":[1]}', "a ReceiptToolCall is a JSON object"),
    ],
)
def test_what_is_no_receipt_is_refused_whole_or_in_parts(
    data: bytes, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ReceiptError, match=says):
        SessionReceipt.from_json(data)
    file = tmp_path / "RECEIPT.json"
    file.write_bytes(data)
    monkeypatch.setattr(receipts, "MOST_HELD", -1)
    with pytest.raises(ReceiptError):
        SessionReceipt.from_file(file)
    with pytest.raises(UsageError, match="cannot be read"):
        SessionReceipt.from_file(tmp_path / "none")


def test_a_large_receipt_is_read_from_its_file_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.trace.large_receipt._CHUNK", 7)
    for number, text in enumerate(
        [
            RECEIPT.to_canonical_json(),
            json.dumps(RECEIPT.members(), indent=3),
            json.dumps({**RECEIPT.members(), "é": 1}),
        ]
    ):
        file = tmp_path / f"{number}.json"
        file.write_text(text, encoding="utf-8")
        whole = SessionReceipt.from_file(file)
        with monkeypatch.context() as patch:
            patch.setattr(receipts, "MOST_HELD", 10)
            large = SessionReceipt.from_file(file)
        assert isinstance(large.tool_calls, CallsInFile)
        assert list(large.tool_calls) == list(whole.tool_calls)
        assert (len(large.tool_calls), large.tool_calls[1]) == (4, whole.tool_calls[1])
        assert large.to_canonical_json() == whole.to_canonical_json()
        assert verify_replay(EVENTS, large).mismatches == []


@given(st.data())
def test_a_large_receipt_is_refused_where_a_small_one_is(data: st.DataObject) -> None:
    """Any byte put in or taken out: both readers are of one mind."""
    import tempfile

    text = RECEIPT.to_canonical_json().encode()
    at_byte = data.draw(st.integers(0, len(text)))
    put_in = data.draw(st.sampled_from([b"", b'"', b"{", b"}", b"[", b"]", b",", b" ", b"1", b"\xff", b"\\"]))
    text = text[:at_byte] + put_in + text[at_byte + data.draw(st.integers(0, 3)) :]
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        read = []
        for act in (lambda: SessionReceipt.from_json(text), lambda: receipts.read_large(file.name)):
            try:
                read.append(act().to_canonical_json())
            except ReceiptError:
                read.append("refused")
    assert read[0] == read[1]


def test_numbers_of_calls_are_whole_and_in_range() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**RECEIPT.tool_calls[0].members(), "step_utility": 2}, ReceiptToolCall)
    assert canonical_hash({"a": 1}) == canonical_hash({"a": 1.0})
