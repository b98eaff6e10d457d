"""Through helpers: what they give back is made from what they are given."""


def too_slow(ms, limit=500):
    return ms > limit


def choose(outcome):
    if too_slow(outcome.latency_ms):  # expect: RN101
        return "slow"
    return "fast"


def choose_by_keyword(outcome):
    return "slow" if too_slow(limit=3, ms=outcome.latency_ms) else "fast"  # expect: RN101


def choose_by_elements(outcomes):
    return too_slow([outcome.latency_ms for outcome in outcomes]) == 1  # expect: RN102


class Policy:
    @staticmethod
    def exceeds(ms):
        return ms > 100

    def decide(self, outcome):
        return 1 if Policy.exceeds(outcome.latency_ms) else 0  # expect: RN101
