"""A skill that makes an outcome from another one."""
from reenact.contracts.outcome import StructuredOutcome


def wrapped(outcome: StructuredOutcome) -> StructuredOutcome:
    made = StructuredOutcome(
        code=outcome.code,
        status=outcome.status,
        message=f"wrapped: {outcome.message}",
        latency_ms=outcome.latency_ms + 1,
        timestamp=outcome.timestamp,
    )
    if made.code == "OK" and made.status == "success":
        return made
    return outcome
