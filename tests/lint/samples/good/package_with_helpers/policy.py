"""Decisions."""
from .describe import cost, exceeds, line


def stop(outcome, budget):
    print(line(outcome))
    return exceeds(cost(outcome), budget)


def both(outcome):
    return {"text": line(outcome), "stop": stop(outcome, 3)}
