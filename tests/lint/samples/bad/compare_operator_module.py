"""The operators as functions."""
import operator


def same(outcome, text):
    return operator.eq(outcome.message, text)  # expect: RN102
