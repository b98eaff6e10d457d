"""Integration: replay behavior. Same behavior parity, with every way in which HTTP goes wrong."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.testing import Reply, assert_retry_behavior_matches, execute, load_plan, mock_http, replay


def test_replay_exhibits_same_retry_count():
    """Replay produces same retry count for same error."""
    original_plan = load_plan("test_plan.json")

    # Mock HTTP to always return 503
    with mock_http(always_503=True):
        original_result = execute(original_plan)
        replay_result = replay(original_plan)

    assert original_result.retry_count == replay_result.retry_count
    assert original_result.final_code == replay_result.final_code


def test_the_503_was_retried_as_often_as_the_policy_allows() -> None:
    """The test above would also pass if nothing were retried; this one would not."""
    with mock_http(always_503=True) as http:
        result = execute(load_plan("test_plan.json"))

    assert (result.retry_count, result.final_code, len(http.calls)) == (3, "ERR_HTTP_503", 4)


ANSWERS: dict[str, tuple[list[Any], str, int]] = {
    "a status that ends it": ([404], "ERR_HTTP_404", 0),
    "a status that passes": ([503, 200], "OK_HTTP_CALL", 1),
    "a timeout": (["timeout"], "ERR_HTTP_TIMEOUT", 3),
    "refused, then well": (["refused", 200], "OK_HTTP_CALL", 1),
    "no such name": (["dns"], "ERR_DNS_FAILURE", 3),
    "a bad certificate": (["tls"], "ERR_SSL_ERROR", 0),
    "slow down": ([Reply(429, headers={"retry-after": "7"}), 200], "OK_HTTP_CALL", 1),
    "mixed": ([500, "timeout", 502, 200], "OK_HTTP_CALL", 3),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_mock_replay_repeats_retries_codes_and_side_effects_of(case: str) -> None:
    replies, code, retries = ANSWERS[case]
    plan = load_plan("test_plan.json")
    with mock_http(replies=replies):
        original = execute(plan)
    mocked = replay(plan)

    assert (original.final_code, original.retry_count) == (code, retries)
    assert mocked.matches
    assert_retry_behavior_matches(original, mocked)


@pytest.mark.parametrize("case", ANSWERS)
def test_a_full_replay_of_the_same_answers_behaves_the_same_in(case: str) -> None:
    replies, code, retries = ANSWERS[case]
    plan = load_plan("test_plan.json")
    with mock_http(replies=replies):
        original = execute(plan)
    with mock_http(replies=replies) as http:
        live = replay(plan, mode="full_replay")

    assert (live.verdict, live.final_code, live.retry_count) == ("matched", code, retries)
    assert len(http.calls) == original.retry_count + 1
    assert live.run_id != original.run_id


def test_a_full_replay_that_meets_another_answer_differs_and_says_where() -> None:
    plan = load_plan("test_plan.json")
    with mock_http(replies=[503, 200]):
        execute(plan)
    with mock_http(replies=[200]):
        live = replay(plan, mode="full_replay")

    assert live.verdict == "world_differed"
    assert live.divergence is not None
    assert (live.divergence.difference.step_id, live.divergence.difference.aspect) == ("fetch", "error_codes")
    assert live.behavior_match["retry_count"] is False
    assert live.behavior_match["status"] is True


def test_other_content_is_listed_apart_and_fails_nothing() -> None:
    plan = load_plan("test_plan.json")
    with mock_http(always=Reply(200, {"price": 1})):
        execute(plan)
    with mock_http(always=Reply(200, {"price": 2})):
        live = replay(plan, mode="full_replay")

    assert live.verdict == "matched"
    assert [(item.step_id, item.pointers) for item in live.content] == [("fetch", ("/body/price",))]
