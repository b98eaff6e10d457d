"""Through local variables, arithmetic and conversions."""


def choose(outcome):
    latency = outcome.latency_ms
    seconds = latency / 1000
    rounded = int(round(seconds))
    if rounded > 2:  # expect: RN101
        return "slow"
    return "fast"


def rebound(outcome):
    value = outcome.code
    value = outcome.message
    if value == "gone":  # expect: RN101
        return 1
    return 0


def one_way(outcome, flag):
    value = "x"
    if flag:
        value = outcome.message
    return 1 if value else 0  # expect: RN101
