"""To log a forbidden field is fine, however it is computed."""
import logging

log = logging.getLogger(__name__)
logger = log


def report(outcome):
    log.info("step %s took %d ms", outcome.step_id, outcome.latency_ms)
    logger.debug(f"{outcome.message} [{outcome.observability.trace_id}]")
    log.info("slow" if outcome.latency_ms > 500 else "fast")
    print(outcome.timestamp, outcome.message or "-", max(outcome.latency_ms, 1))
    return outcome.code
