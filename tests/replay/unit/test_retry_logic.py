"""Unit: retry logic. Same decision for same inputs."""

from __future__ import annotations

from reenact import RetryPolicy, calculate_backoff_ms, should_retry


def test_retry_decision_is_deterministic():
    """Same inputs produce same retry decision."""
    policy = RetryPolicy(max_retries=3, backoff_base_ms=100)

    # Run 100 times - must be identical
    results = [
        should_retry("ERR_HTTP_503", attempt=2, policy=policy)
        for _ in range(100)
    ]  # fmt: skip

    assert all(r == results[0] for r in results)


def test_the_decision_depends_on_attempt_code_and_policy() -> None:
    policy = RetryPolicy(max_retries=3)

    assert [should_retry("ERR_HTTP_503", attempt=number, policy=policy) for number in range(5)] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert not should_retry("ERR_HTTP_404", attempt=0, policy=policy)


def test_jitter_is_a_function_of_run_step_and_attempt() -> None:
    policy = RetryPolicy(jitter_enabled=True, jitter_max_ms=1000)
    waits = {
        (run, step, attempt): calculate_backoff_ms(attempt, policy, run, step_id=step)
        for run in ("r1", "r2")
        for step in ("a", "b")
        for attempt in (0, 1)
    }

    again = {key: calculate_backoff_ms(key[2], policy, key[0], step_id=key[1]) for key in waits}
    assert again == waits
    assert len(set(waits.values())) > 4
