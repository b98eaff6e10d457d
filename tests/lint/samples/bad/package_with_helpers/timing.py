"""Helpers that are innocent by themselves."""


def elapsed(outcome):
    return outcome.latency_ms


def exceeds(ms, limit):
    return ms > limit


class Clock:
    def __init__(self):
        self.last = 0

    def note(self, outcome):
        self.last = outcome.latency_ms
