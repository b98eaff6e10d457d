"""A view of an outcome has no forbidden fields."""
from reenact.contracts.stability import DecisionView


def alike(outcome, recorded_outcome):
    return DecisionView(outcome) == DecisionView(recorded_outcome)


def choose(outcome):
    view = DecisionView(outcome)
    return "retry" if view.retryable else view.code
