"""The decision rules, each as a row; the example turn; what a denial carries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

from reenact.errors import ToolCallError
from reenact.policy.replay_control import DENIAL_REASONS, ReplayControl, ToolDenied, ToolSpec

SEARCH = ToolSpec(name="web_search", idempotent=True)
MAIL = ToolSpec(name="send_email", idempotent=False)
ARGS = {"q": "capital of France"}

Record = Callable[[ReplayControl, str, dict[str, Any], ToolSpec | None], None]
RECORDS: dict[str, Record] = {
    "success": ReplayControl.record_success,
    "failure": ReplayControl.record_failure,
    "timeout": ReplayControl.record_timeout,
    "denied": ReplayControl.record_denied,
}


@pytest.mark.parametrize(
    ("spec", "history", "skip"),
    [
        # non-idempotent: always allow
        (MAIL, [], False),
        (MAIL, ["success"], False),
        (MAIL, ["success", "success"], False),
        # idempotent, first call: allow
        (SEARCH, [], False),
        # idempotent, prior call succeeded: skip
        (SEARCH, ["success"], True),
        # idempotent, prior call failed or timed out: allow
        (SEARCH, ["failure"], False),
        (SEARCH, ["timeout"], False),
        (SEARCH, ["failure", "timeout", "failure"], False),
        # idempotent, prior call was denied: allow
        (SEARCH, ["denied"], False),
        # a success is not forgotten
        (SEARCH, ["failure", "success"], True),
        (SEARCH, ["success", "failure"], True),
        (SEARCH, ["success", "timeout"], True),
        (SEARCH, ["success", "denied"], True),
        # no spec: as idempotent
        (None, [], False),
        (None, ["success"], True),
        (None, ["failure"], False),
        (None, ["timeout"], False),
        (None, ["denied"], False),
    ],
)
def test_the_rules(spec: ToolSpec | None, history: list[str], skip: bool) -> None:
    replay = ReplayControl()
    for outcome in history:
        RECORDS[outcome](replay, "tool", ARGS, spec)
    decision, reason = replay.should_skip("tool", ARGS, spec)
    assert decision is skip
    assert bool(reason) is skip


def test_the_example_turn() -> None:
    replay = ReplayControl()
    france = {"q": "capital of France"}

    assert replay.should_skip("web_search", france, SEARCH) == (False, "")
    replay.record_failure("web_search", france, SEARCH)

    assert replay.should_skip("web_search", france, SEARCH) == (False, "")
    replay.record_success("web_search", france, SEARCH)

    skip, reason = replay.should_skip("web_search", france, SEARCH)
    assert skip is True
    denied = ToolDenied(call_id="c3", tool_name="web_search", reason="duplicate", details=reason)
    assert (denied.reason, denied.earlier_call_id, denied.output) == ("duplicate", None, UNSET)
    assert "web_search already succeeded" in denied.details

    population = {"q": "population of France"}
    assert replay.should_skip("web_search", population, SEARCH) == (False, "")
    replay.record_success("web_search", population, SEARCH)
    assert replay.history_size() == 2


def test_a_new_turn_knows_nothing_of_the_last() -> None:
    ReplayControl().record_success("web_search", ARGS, SEARCH)
    assert ReplayControl().should_skip("web_search", ARGS, SEARCH)[0] is False


def test_another_tool_with_the_same_arguments_is_another_call() -> None:
    replay = ReplayControl()
    replay.record_success("web_search", ARGS, SEARCH)
    assert replay.should_skip("local_search", ARGS, ToolSpec(name="local_search"))[0] is False


def test_a_success_of_a_tool_that_is_not_idempotent_lets_nothing_be_left_out_whoever_asks() -> None:
    replay = ReplayControl()
    replay.record_success("send_email", ARGS, MAIL)
    assert replay.should_skip("send_email", ARGS)[0] is False
    assert replay.history_size() == 1


def test_asking_is_not_recording() -> None:
    replay = ReplayControl()
    replay.should_skip("web_search", ARGS, SEARCH)
    assert replay.history_size() == 0


def test_the_history_counts_distinct_pairs_of_every_outcome_and_kind() -> None:
    replay = ReplayControl()
    for number, record in enumerate(RECORDS.values()):
        for _ in range(3):
            record(replay, "send_email", {"n": number}, MAIL)
            record(replay, "web_search", {"n": number}, None)
    assert replay.history_size() == 2 * len(RECORDS)


def test_a_spec_counts_as_idempotent_unless_it_says_otherwise() -> None:
    assert ToolSpec("x").idempotent is True
    assert ToolSpec("x", idempotent=False).idempotent is False


def test_a_denial_carries_the_first_success_and_its_output_where_they_were_kept() -> None:
    replay = ReplayControl()
    replay.record_success("web_search", ARGS, SEARCH, call_id="c1", output=None)
    replay.record_success("web_search", ARGS, SEARCH, call_id="c2", output={"answer": "Paris"})
    skip, reason = replay.should_skip("web_search", ARGS, SEARCH)
    assert skip
    assert "c1" in reason
    denied = replay.deny_duplicate("c3", "web_search", ARGS, reason)
    assert denied == ToolDenied("c3", "web_search", "duplicate", reason, earlier_call_id="c1", output=None)


def test_a_denial_without_a_recorded_call_id_says_nothing_about_it() -> None:
    replay = ReplayControl()
    replay.record_success("web_search", ARGS, SEARCH)
    denied = replay.deny_duplicate("c2", "web_search", ARGS)
    assert denied.earlier_call_id is None
    assert denied.output is UNSET


@pytest.mark.parametrize("reason", ["duplicate", "blocked", "pre_hook", "validation", "deadline"])
def test_every_reason_can_be_given(reason: Any) -> None:
    assert ToolDenied("c1", "tool", reason, "why").reason == reason
    assert reason in DENIAL_REASONS


def test_a_reason_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ToolCallError, match="duplicate, blocked, pre_hook, validation, deadline; not for 'mood'"):
        ToolDenied("c1", "tool", "mood")  # type: ignore[arg-type]


def test_the_values_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        SEARCH.idempotent = False  # type: ignore[misc]
    with pytest.raises(AttributeError):
        ToolDenied("c1", "tool", "blocked").reason = "deadline"  # type: ignore[misc]


def test_threads_may_share_one_control() -> None:
    replay = ReplayControl()
    start = threading.Barrier(8)

    def work(worker: int) -> None:
        start.wait()
        for number in range(200):
            arguments = {"n": number}
            replay.should_skip("tool", arguments, SEARCH)
            if worker % 2:
                replay.record_success("tool", arguments, SEARCH, call_id=f"{worker}")
            else:
                replay.record_failure("tool", arguments, SEARCH)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replay.history_size() == 200
    assert all(replay.should_skip("tool", {"n": number}, SEARCH)[0] for number in range(200))


def test_a_denial_may_be_made_of_its_reason_and_details_alone() -> None:
    denied = ToolDenied(reason="duplicate", details="it was made before")
    assert (denied.reason, denied.details, denied.call_id, denied.tool_name) == (
        "duplicate",
        "it was made before",
        "",
        "",
    )
    with pytest.raises(ToolCallError, match="not for ''"):
        ToolDenied(details="why")
