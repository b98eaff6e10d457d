"""A function inside a method."""


class Outer:
    def method(self, outcome):
        def inner():
            return outcome.latency_ms > 3  # expect: RN102

        return inner
