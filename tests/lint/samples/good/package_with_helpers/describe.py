"""Texts for people."""


def line(outcome, width=80):
    return f"{outcome.timestamp} {outcome.code} {outcome.message}"[:width]


def cost(outcome):
    return outcome.cost_cents


def exceeds(value, limit):
    return value > limit
