"""A class inside a function, and a function inside a method."""


def build(outcome):
    class Box:
        def __init__(self, text):
            self.text = text

        def gone(self):
            return self.text == "gone"  # expect: RN102

    return Box(outcome.message)


class Outer:
    def method(self, outcome):
        def inner():
            return outcome.latency_ms > 3  # expect: RN102

        return inner
