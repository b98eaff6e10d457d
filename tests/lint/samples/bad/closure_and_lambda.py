"""Through closures, lambdas in variables, map and generators."""


def closure(outcome):
    text = outcome.message

    def gone():
        return text == "gone"  # expect: RN102

    return gone()


def in_variable(rows):
    slow = lambda outcome: outcome.latency_ms
    return slow(rows[0]) > 100  # expect: RN102


def mapped(outcomes):
    return max(map(lambda outcome: outcome.latency_ms, outcomes))  # expect: RN103


def generated(outcomes):
    return max(outcome.latency_ms for outcome in outcomes)  # expect: RN103
