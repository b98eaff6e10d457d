"""Through an object's attribute, within a method and across methods."""


class Planner:
    def __init__(self, limit):
        self.limit = limit
        self.last = 0

    def observe(self, outcome):
        self.last = outcome.latency_ms

    def next(self):
        if self.last > self.limit:  # expect: RN101
            return "slow"
        return "fast"


def note(box, outcome):
    box.text = outcome.message
    return box.text == "gone"  # expect: RN102
