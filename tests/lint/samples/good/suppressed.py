"""Exceptions, each with its reason."""
import time

STARTED = time.time()  # reenact: ignore[RN203] shown on the status page, nothing reads it back


def slow(outcome):
    # reenact: ignore[RN102] feeds the alert that an operator asked for, no code path
    return outcome.latency_ms > 500


def ordered(outcomes):
    return sorted(
        outcomes,
        key=lambda outcome: outcome.timestamp,
    )  # reenact: ignore[RN103] for the timeline that people read


def both(outcome):
    return outcome.message == str(time.time())  # reenact: ignore[RN102, RN203] a probe for the test page
