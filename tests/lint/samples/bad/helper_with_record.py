"""A helper that decides on one field of what it is given."""


def decide(facts):
    return facts["ms"] > 100


def bad(outcome):
    return decide({"code": outcome.code, "ms": outcome.latency_ms})  # expect: RN102


def elements(values):
    return max(values)


def bad_elements(outcomes):
    return elements([outcome.latency_ms for outcome in outcomes])  # expect: RN103
