"""Loops, comprehensions and conversions that depend on the order of a set."""


def loop(tags: set[str], emit):
    for tag in tags:  # expect: RN206
        emit(tag)


def comprehension(names):
    return [name.upper() for name in {"a", "b", *names}]  # expect: RN206


def conversion(names):
    return list(set(names))  # expect: RN206


def joined(names):
    return ",".join({name.strip() for name in names})  # expect: RN206


def difference(old: set[str], new, emit):
    for name in old - new:  # expect: RN206
        emit(name)


def first(names):
    return next(iter(set(names)))  # expect: RN206


def unpacked(pair: frozenset[str]):
    left, right = pair  # expect: RN206
    return left


def starred(names):
    return [*set(names), "end"]  # expect: RN206
