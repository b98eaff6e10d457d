"""Sets used for what they are: membership, algebra, sizes, sorted output."""


def members(names, allowed):
    wanted = set(names)
    if "x" in wanted or wanted & allowed:
        return len(wanted - allowed)
    return sum(len(name) for name in wanted)


def ordered(names):
    for name in sorted(set(names)):
        yield name


def checks(names):
    unknown = set(names) - {"a", "b"}
    if unknown:
        raise ValueError(f"unknown: {', '.join(unknown)}")
    return all(name.isidentifier() for name in unknown), any(unknown), min(unknown), frozenset(unknown)


def sorted_later(names):
    result = list(set(names))
    result.sort()
    return result


def union(groups):
    result = set()
    for group in groups:
        for name in set(group):
            result.add(name)
    return result


def counted(names):
    total = 0
    for name in set(names):
        total += len(name)
    return total


def found(names):
    for name in set(names):
        if name.startswith("x"):
            return True
    return False


def table(names):
    return {name: len(name) for name in set(names)}


def only(names: set[str]):
    (name,) = names
    return name


def subset(names):
    return {name for name in set(names) if name} <= {"a"}


def single(names):
    kinds = {name[0] for name in names}
    return kinds.pop() if len(kinds) == 1 else "mixed"


def merged(groups: set[frozenset[str]]):
    return set().union(*groups)


def updated(seen, names):
    seen.update([name.upper() for name in set(names)])
    return seen
