"""Fields of observability and of side effects."""


def traced(outcome):
    if outcome.observability.span_id == "0":  # expect: RN101
        return 1
    return 0


def first_effect(outcome):
    effects = sorted(outcome.side_effects, key=lambda effect: effect["timestamp"])  # expect: RN103
    return effects[0]


def by_getattr(outcome):
    return getattr(outcome, "message", "") == "gone"  # expect: RN102
