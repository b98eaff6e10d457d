"""Through helpers: what they return, and what they do with their parameters."""


def latency_of(outcome):
    return outcome.latency_ms


def too_slow(ms, limit=500):
    return ms > limit


def choose_by_return(outcome):
    if latency_of(outcome) > 100:  # expect: RN101
        return "slow"
    return "fast"


def choose_by_parameter(outcome):
    if too_slow(outcome.latency_ms):  # expect: RN102
        return "slow"
    return "fast"


def choose_by_keyword(outcome):
    return too_slow(limit=3, ms=outcome.latency_ms)  # expect: RN102
