"""A record of one's own with the fields of an outcome."""
from dataclasses import dataclass


@dataclass
class StepReport:
    code: str
    status: str
    message: str
    latency_ms: int

    def slow(self) -> bool:
        return self.latency_ms > 100  # expect: RN102


def choose(report: StepReport):
    if report.message == "gone":  # expect: RN101
        return "stop"
    return report.code
