"""Through a chain of helpers, and through one that calls itself."""


def outer(outcome):
    return middle(outcome.message)  # expect: RN102


def middle(text):
    return inner(text.strip())


def inner(text):
    return text == "gone"


def countdown(n):
    if n > 0:
        return countdown(n - 1)
    return 0


def recursive(outcome):
    return countdown(outcome.latency_ms)  # expect: RN101
