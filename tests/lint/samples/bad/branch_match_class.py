"""A class pattern over an outcome."""
from reenact.contracts.outcome import StructuredOutcome


def next_step(result):
    match result:
        case StructuredOutcome(code="OK", message="cached"):  # expect: RN101
            return "skip"
        case StructuredOutcome(latency_ms=ms) if ms > 9:  # expect: RN101
            return "wait"
        case _:
            return "go"
