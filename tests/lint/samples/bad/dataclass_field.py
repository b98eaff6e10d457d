"""Through a dataclass field."""
from dataclasses import dataclass


@dataclass
class Sample:
    code: str
    elapsed: int


def collect(outcome):
    return Sample(outcome.code, elapsed=outcome.latency_ms)


def judge(outcome):
    sample = collect(outcome)
    if sample.elapsed > 100:  # expect: RN101
        return "slow"
    return sample.code
