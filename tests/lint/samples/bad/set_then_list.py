"""A list made from a set has the order of the set."""


def later(names):
    ordered = list(set(names))
    return ordered[0]  # expect: RN206


def extended(names):
    result = ["first"]
    result.extend(set(names))  # expect: RN206
    return result
