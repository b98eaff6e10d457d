"""Whole outcomes contain what may differ."""
from reenact.contracts.outcome import StructuredOutcome


def same(first: StructuredOutcome, second: StructuredOutcome) -> bool:
    return first == second  # expect: RN105


def seen(outcome, outcomes):
    return outcome in outcomes  # expect: RN105
