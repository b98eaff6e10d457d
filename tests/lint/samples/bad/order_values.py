"""The values themselves, ordered."""
import heapq
from itertools import groupby


def worst(outcomes):
    return max(outcome.latency_ms for outcome in outcomes)  # expect: RN103


def ranks(outcomes):
    latencies = [outcome.latency_ms for outcome in outcomes]
    return sorted(latencies)  # expect: RN103


def queue(outcomes):
    heap = []
    for outcome in outcomes:
        heapq.heappush(heap, (outcome.timestamp, outcome.code))  # expect: RN103
    return heap


def groups(outcomes):
    return groupby(outcomes, key=lambda outcome: outcome.message)  # expect: RN103


def two(outcome, other):
    return min(outcome.latency_ms, other)  # expect: RN103
