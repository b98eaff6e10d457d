"""Through closures, lambdas in variables, map and generators."""


def closure(outcome):
    text = outcome.message

    def gone():
        return text == "gone"  # expect: RN102

    return gone()


def in_variable(outcome):
    slow = lambda ms: ms > 100
    return slow(outcome.latency_ms)  # expect: RN102


def mapped(outcomes):
    return max(map(lambda outcome: outcome.latency_ms, outcomes))  # expect: RN103


def latencies(outcomes):
    for outcome in outcomes:
        yield outcome.latency_ms


def generated(outcomes):
    return max(latencies(outcomes))  # expect: RN103
