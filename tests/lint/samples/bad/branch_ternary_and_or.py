"""Expressions that branch."""


def label(outcome):
    return "slow" if outcome.latency_ms > 500 else "fast"  # expect: RN101


def act(outcome, retry):
    return outcome.message and retry()  # expect: RN101


def either(outcome, fallback):
    return outcome.message or fallback()  # expect: RN101


def both(outcome):
    if outcome.retryable and not outcome.message:  # expect: RN101
        return 1
    return 0
