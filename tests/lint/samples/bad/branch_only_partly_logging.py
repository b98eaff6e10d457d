"""A branch that logs and does something else."""
import logging

log = logging.getLogger(__name__)


def check(outcome, retry):
    if outcome.latency_ms > 1000:  # expect: RN101
        log.warning("slow: %s", outcome.latency_ms)
        retry()
