"""Comparisons that are returned or stored."""


def slow(outcome):
    return outcome.latency_ms >= 500  # expect: RN102


def same(outcome, other):
    equal = outcome.message == other  # expect: RN102
    return equal


def member(outcome, seen):
    return outcome.observability.trace_id in seen  # expect: RN102


def contains(outcome):
    return "quota" not in outcome.message  # expect: RN102


def chained(outcome):
    return 10 < outcome.latency_ms < 20  # expect: RN102
