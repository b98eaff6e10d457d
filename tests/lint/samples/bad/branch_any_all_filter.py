"""Functions that branch on each element."""


def some_message(outcomes):
    return any(outcome.message for outcome in outcomes)  # expect: RN101


def all_traced(outcomes):
    return all(map(lambda outcome: outcome.observability.trace_id, outcomes))  # expect: RN101


def with_message(outcomes):
    return list(filter(lambda outcome: outcome.message, outcomes))  # expect: RN101
