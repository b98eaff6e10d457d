"""Keys that read a field by its name."""
from operator import attrgetter, itemgetter


def by_attribute(outcomes):
    return sorted(outcomes, key=attrgetter("latency_ms"))  # expect: RN103


def by_path(outcomes):
    return min(outcomes, key=attrgetter("observability.span_id"))  # expect: RN103


def by_item(rows):
    return sorted(rows, key=itemgetter("timestamp"))  # expect: RN103
