"""Sorting and selecting with a key."""


def by_time(outcomes):
    return sorted(outcomes, key=lambda outcome: outcome.timestamp)  # expect: RN103


def slowest(outcomes):
    return max(outcomes, key=lambda o: o["latency_ms"])  # expect: RN103


def in_place(results):
    results.sort(key=lambda r: (r.code, r.latency_ms))  # expect: RN103
    return results
