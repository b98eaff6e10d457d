"""A dict made from a set has the order of the set."""


def from_keys(names, emit):
    table = dict.fromkeys(set(names))  # expect: RN206
    for name in table:
        emit(name)


def comprehension(names, emit):
    table = {name: len(name) for name in set(names)}  # expect: RN206
    for name, size in table.items():
        emit(name, size)


def later(names):
    ordered = list(set(names))  # expect: RN206
    return ordered[0]


def extended(names):
    result = ["first"]
    result.extend(set(names))  # expect: RN206
    return result
