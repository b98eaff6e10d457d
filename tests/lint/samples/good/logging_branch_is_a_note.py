"""A branch that only logs changes no behaviour: it is noted, and fails nothing."""
import logging

log = logging.getLogger(__name__)


def report(outcome):
    if outcome.latency_ms > 500:
        log.warning("slow step %s", outcome.step_id)
    elif outcome.message:
        log.info(outcome.message)
    return outcome.code
