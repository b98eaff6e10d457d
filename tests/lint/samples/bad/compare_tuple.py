"""A forbidden field inside a tuple is compared with it."""


def same(outcome, other):
    return (outcome.code, outcome.timestamp) == (other.code, other.timestamp)  # expect: RN102
