"""The planner."""
from . import timing
from .rules import too_long
from .timing import Clock, elapsed


def by_return(outcome):
    if elapsed(outcome) > 100:  # expect: RN101
        return "slow"
    return "fast"


def by_module(outcome):
    return timing.elapsed(outcome) == 0  # expect: RN102


def by_parameter(outcome):
    if too_long(outcome.latency_ms, 100):  # expect: RN102
        return "slow"
    return "fast"


def by_object(clock: Clock):
    return clock.last > 5  # expect: RN102


def innocent(outcome):
    return too_long(outcome.cost_cents, 100)
