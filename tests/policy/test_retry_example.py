"""The first example test of the determinism specification, word for word but for its imports."""

from __future__ import annotations

from reenact.policy.retry import RetryPolicy, should_retry


# fmt: off
def test_retry_decision_is_deterministic():
    """Same inputs produce same retry decision."""
    policy = RetryPolicy(max_retries=3, backoff_base_ms=100)

    # Run 100 times - must be identical
    results = [
        should_retry("ERR_HTTP_503", attempt=2, policy=policy)
        for _ in range(100)
    ]

    assert all(r == results[0] for r in results)
