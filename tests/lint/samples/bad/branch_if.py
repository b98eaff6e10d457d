"""A plain branch, by attribute, subscript and get."""


def retry_by_attribute(outcome):
    if outcome.latency_ms > 2000:  # expect: RN101
        return "retry"
    return "done"


def retry_by_subscript(outcome):
    if outcome["latency_ms"] > 2000:  # expect: RN101
        return "retry"
    return "done"


def retry_by_get(outcome):
    if outcome.get("latency_ms", 0) > 2000:  # expect: RN101
        return "retry"
    return "done"
