"""Through methods and properties."""


class Policy:
    def __init__(self, outcome):
        self.outcome = outcome

    @property
    def latency(self):
        return self.outcome.latency_ms

    def exceeds(self, ms):
        return ms > 100

    def decide(self):
        if self.latency > 100:  # expect: RN101
            return "slow"
        return "fast"

    def decide_by_method(self, outcome):
        return self.exceeds(outcome.latency_ms)  # expect: RN102
