"""Through unpacking, of tuples, with a star, in a loop."""


def unpack(outcome):
    code, latency = outcome.code, outcome.latency_ms
    if latency > 10:  # expect: RN101
        return code
    return None


def unpack_star(outcome):
    first, *rest = outcome.message, outcome.code
    return 1 if first else 0  # expect: RN101


def unpack_items(outcomes):
    rows = [(outcome.code, outcome.message) for outcome in outcomes]
    for code, message in rows:
        if message == "gone":  # expect: RN101
            return code
    return None
