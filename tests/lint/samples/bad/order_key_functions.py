"""Keys that are functions of their own."""
from operator import attrgetter, itemgetter


def when(outcome):
    return outcome.timestamp


def by_function(outcomes):
    return sorted(outcomes, key=when)  # expect: RN103


def by_attribute(outcomes):
    return sorted(outcomes, key=attrgetter("latency_ms"))  # expect: RN103


def by_path(outcomes):
    return min(outcomes, key=attrgetter("observability.span_id"))  # expect: RN103


def by_item(rows):
    return sorted(rows, key=itemgetter("timestamp"))  # expect: RN103
