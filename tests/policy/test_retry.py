"""Whether to try again, and how long to wait."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import Runtime
from reenact.contracts.plan import plan_from_document
from reenact.errors import PolicyInputError
from reenact.policy.retry import RetryPolicy, calculate_backoff_ms, merge_retry, policy_to_dict, should_retry
from reenact.policy.taxonomy import RETRYABLE_CODES, TAXONOMY
from reenact.values.canonical import canonicalize, parse_json


def test_both_spellings_of_the_question_have_one_answer() -> None:
    assert should_retry(error_code="ERR_HTTP_503", attempt_number=2, max_retries=3, retry_policy=RetryPolicy())
    assert should_retry("ERR_HTTP_503", 2, RetryPolicy(max_retries=3))
    assert not should_retry("ERR_HTTP_503", attempt_number=3, max_retries=3, retry_policy=None)
    assert should_retry("ERR_HTTP_503", 5, {"max_retries": 6})
    assert not should_retry("ERR_HTTP_503", 5, {"max_retries": 6}, max_retries=5)


@pytest.mark.parametrize(
    ("attempt", "most", "expected"), [(0, 0, False), (0, 1, True), (2, 3, True), (3, 3, False), (4, 3, False)]
)
def test_as_many_retries_as_are_allowed(attempt: int, most: int, expected: bool) -> None:
    assert should_retry("ERR_TIMEOUT", attempt, RetryPolicy(max_retries=most)) is expected


@pytest.mark.parametrize("code", list(TAXONOMY))
def test_codes_are_retried_as_the_taxonomy_says(code: str) -> None:
    assert should_retry(code, 0, RetryPolicy()) is TAXONOMY[code].retryable


def test_a_policy_may_name_its_own_codes() -> None:
    policy = RetryPolicy(retryable_codes=["ERR_HTTP_404", "MY_CODE"])
    assert should_retry("ERR_HTTP_404", 0, policy)
    assert should_retry("MY_CODE", 0, policy)
    assert not should_retry("ERR_HTTP_503", 0, policy)
    assert should_retry("ERR_RATE_LIMITED", 0, RetryPolicy(retryable_codes=["ERR_RATE_LIMIT_INTERNAL"]))
    assert should_retry("ERR_RATE_LIMIT_INTERNAL", 0, RetryPolicy(retryable_codes=["ERR_RATE_LIMITED"]))


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"attempt": -1},
        {"attempt": True},
        {"attempt": 1.0},
        {"attempt": 1, "attempt_number": 2},
        {"attempt": 1, "policy": RetryPolicy(), "retry_policy": RetryPolicy(max_retries=1)},
        {"attempt": 1, "policy": {"tries": 3}},
        {"attempt": 1, "max_retries": -1},
    ],
)
def test_questions_that_make_no_sense_are_refused(question: dict[str, object]) -> None:
    with pytest.raises(PolicyInputError):
        should_retry("ERR_TIMEOUT", **question)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {"max_retries": -1},
        {"max_retries": 1.0},
        {"max_retries": True},
        {"max_retries": 10_001},
        {"backoff_base_ms": -1},
        {"max_backoff_ms": "5000"},
        {"jitter_max_ms": 10**12},
        {"jitter_enabled": 1},
        {"backoff_multiplier": 0.5},
        {"backoff_multiplier": 1.0000001},
        {"backoff_multiplier": float("nan")},
        {"backoff_multiplier": float("inf")},
        {"backoff_multiplier": "2"},
        {"backoff_multiplier": True},
        {"retryable_codes": "ERR_TIMEOUT"},
        {"retryable_codes": ["err"]},
        {"retryable_codes": [1]},
        {"retryable_codes": None},
    ],
)
def test_policies_that_make_no_sense_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(PolicyInputError, match="retry"):
        RetryPolicy(**fields)  # type: ignore[arg-type]
    with pytest.raises(PolicyInputError, match="retry"):
        merge_retry(fields)


def test_the_defaults_are_those_of_the_contract() -> None:
    policy = RetryPolicy()
    assert (policy.max_retries, policy.backoff_base_ms, policy.backoff_multiplier) == (3, 100, 2.0)
    assert (policy.max_backoff_ms, policy.jitter_enabled, policy.jitter_max_ms) == (5000, False, 0)
    assert policy.retryable_codes == RETRYABLE_CODES
    assert [calculate_backoff_ms(attempt, policy, "run") for attempt in range(8)] == [
        100, 200, 400, 800, 1600, 3200, 5000, 5000,
    ]  # fmt: skip


def test_a_policy_is_frozen() -> None:
    with pytest.raises(AttributeError):
        RetryPolicy().max_retries = 5  # type: ignore[misc]


def test_back_off_is_exact_where_floats_are_not() -> None:
    policy = RetryPolicy(backoff_base_ms=100, backoff_multiplier=1.15, max_backoff_ms=10**6)
    assert int(100 * 1.15**1) == 114
    assert calculate_backoff_ms(1, policy, "r") == 115
    tenths = RetryPolicy(backoff_base_ms=1000, backoff_multiplier=1.1, max_backoff_ms=10**8)
    assert [calculate_backoff_ms(n, tenths, "r") for n in range(30)] == [
        int(1000 * Fraction(11, 10) ** n) for n in range(30)
    ]


@pytest.mark.parametrize("attempt", [100, 10_000, 10**9, 10**400])
@pytest.mark.parametrize("multiplier", [2.0, 1.5, 1000])
def test_huge_attempts_wait_as_long_as_the_cap(attempt: int, multiplier: float) -> None:
    policy = RetryPolicy(backoff_multiplier=multiplier)
    assert calculate_backoff_ms(attempt, policy, "r") == 5000
    assert calculate_backoff_ms(attempt, RetryPolicy(backoff_multiplier=1), "r") == 100
    assert calculate_backoff_ms(attempt, RetryPolicy(backoff_base_ms=0), "r") == 0


policies = st.builds(
    RetryPolicy,
    backoff_base_ms=st.integers(0, 10**6),
    backoff_multiplier=st.just(1.0) | st.floats(1.001, 50),
    max_backoff_ms=st.integers(0, 10**8),
)


@given(policies, st.integers(0, 40))
def test_back_off_is_the_capped_power_of_the_decimal_that_was_written(policy: RetryPolicy, attempt: int) -> None:
    exact = policy.backoff_base_ms * Fraction(repr(policy.backoff_multiplier)) ** attempt
    assert calculate_backoff_ms(attempt, policy, "r") == min(int(exact), policy.max_backoff_ms)


@given(policies, st.integers(0, 20), st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 10_000))
def test_jitter_stays_in_its_range_and_below_the_cap(policy: RetryPolicy, attempt: int, run: str, most: int) -> None:
    jittery = merge_retry({"jitter_enabled": True, "jitter_max_ms": most}, policy)
    without, wait = calculate_backoff_ms(attempt, policy, run), calculate_backoff_ms(attempt, jittery, run)
    assert without <= wait <= policy.max_backoff_ms
    assert wait - without < most
    assert wait == calculate_backoff_ms(attempt, jittery, run)


def test_jitter_depends_on_run_step_and_attempt_and_on_nothing_else() -> None:
    policy = RetryPolicy(backoff_multiplier=1, jitter_enabled=True, jitter_max_ms=4000)
    waits = {
        calculate_backoff_ms(attempt, policy, run, step_id=step)
        for attempt in range(5)
        for run in ("run-1", "run-2")
        for step in ("a", "b")
    }
    assert len(waits) > 15
    assert calculate_backoff_ms(0, policy, "run-1") == 100 + 3111


def test_jitter_that_is_off_or_zero_adds_nothing() -> None:
    assert calculate_backoff_ms(0, RetryPolicy(jitter_enabled=True), "r") == 100
    assert calculate_backoff_ms(0, RetryPolicy(jitter_max_ms=50), "r") == 100


def test_the_first_that_names_a_field_decides_it() -> None:
    step, plan, skill = (
        {"max_retries": 1},
        {"max_retries": 2, "backoff_base_ms": 7},
        {"backoff_base_ms": 9, "jitter_max_ms": 3},
    )
    assert merge_retry(step, None, plan, skill) == RetryPolicy(max_retries=1, backoff_base_ms=7, jitter_max_ms=3)
    assert merge_retry() == merge_retry(None) == RetryPolicy()
    assert merge_retry({}, RetryPolicy(max_retries=9)) == RetryPolicy(max_retries=9)


def test_a_field_that_nobody_knows_is_refused_by_its_name() -> None:
    with pytest.raises(PolicyInputError, match="'max_tries'; it has max_retries, backoff_base_ms"):
        merge_retry(None, {"max_tries": 3})


@given(policies, st.sets(st.sampled_from(sorted(TAXONOMY))))
def test_a_pinned_policy_is_read_back_from_its_canonical_bytes(policy: RetryPolicy, codes: set[str]) -> None:
    pinned = merge_retry({"retryable_codes": sorted(codes)}, policy)
    plain = parse_json(canonicalize(policy_to_dict(pinned)))
    assert merge_retry(plain) == pinned  # type: ignore[arg-type]
    assert plain["retryable_codes"] == sorted(codes)  # type: ignore[index]


def test_the_cap_can_be_switched_off() -> None:
    seed = RetryPolicy(max_backoff_ms=None)
    assert [calculate_backoff_ms(attempt, seed, "run") for attempt in (0, 6, 10)] == [100, 6400, 102400]
    assert calculate_backoff_ms(10, RetryPolicy(), "run") == 5000
    assert calculate_backoff_ms(9999, seed, "run") == 7 * 24 * 3600 * 1000, "no wait is longer than a week"
    assert merge_retry({"max_backoff_ms": None}, {"max_backoff_ms": 1}).max_backoff_ms is None
    assert merge_retry(policy_to_dict(seed)) == seed


def test_a_policy_may_be_a_mapping_wherever_it_may_be_an_object() -> None:
    given = {"max_retries": 1, "backoff_base_ms": 7}
    assert calculate_backoff_ms(1, given, "run") == 14
    assert should_retry("ERR_HTTP_503", 0, given)
    assert not should_retry("ERR_HTTP_503", 1, given)
    with pytest.raises(PolicyInputError):
        calculate_backoff_ms(1, {"max_retrys": 1}, "run")


def test_a_plan_may_switch_the_cap_off() -> None:
    step = {"step_id": "s", "skill_id": "json_transform", "parameters": {}, "retry": {"max_backoff_ms": None}}
    plan = {"plan_id": "p", "agent_id": "a", "steps": [step], "context": {"retry": {"max_backoff_ms": None}}}
    pinned = Runtime(":memory:").pinned(plan)
    read, _ = plan_from_document(pinned)
    assert read.steps[0].retry.max_backoff_ms is None  # type: ignore[union-attr]
