"""Rules about forbidden fields: values that may differ between two runs and so must not decide anything."""

from __future__ import annotations

from typing import Final

from reenact.lint.findings import Severity
from reenact.lint.rule import Rule

_ONCE_MORE: Final = (
    "A replay sees another value there and goes another way, though the plan and the responses are the same."
)

FIELD_RULES: Final = (
    Rule(
        "RN101",
        "branch-on-forbidden-field",
        Severity.ERROR,
        "Code branches, loops, filters or asserts on a forbidden field.",
        _ONCE_MORE,
        bad="""\
def needs_retry(outcome):
    if outcome.latency_ms > 2000:
        return True
    return outcome.retryable
""",
        good="""\
def needs_retry(outcome):
    if outcome.code == "ERR_HTTP_TIMEOUT":
        return True
    return outcome.retryable
""",
    ),
    Rule(
        "RN102",
        "compare-forbidden-field",
        Severity.ERROR,
        "Code compares a forbidden field, or asks a question about its text.",
        "The answer is a decision, wherever it is used. " + _ONCE_MORE,
        bad="""\
def is_rate_limited(outcome):
    return "rate limit" in outcome.message
""",
        good="""\
def is_rate_limited(outcome):
    return outcome.code in ("ERR_HTTP_429", "ERR_LLM_RATE_LIMIT")
""",
    ),
    Rule(
        "RN103",
        "order-by-forbidden-field",
        Severity.ERROR,
        "Code sorts, groups or picks the smallest or largest by a forbidden field.",
        "The order of steps and side effects is compared in a replay; one made from times differs each time.",
        bad="""\
def in_order(outcomes):
    return sorted(outcomes, key=lambda outcome: outcome.timestamp)
""",
        good="""\
def in_order(outcomes):
    return sorted(outcomes, key=lambda outcome: outcome.step_id)
""",
    ),
    Rule(
        "RN104",
        "look-up-by-forbidden-field",
        Severity.ERROR,
        "Code looks something up by a forbidden field: a handler in a table, a part of a list, an attribute.",
        "A table of handlers is a branch in another form.",
        bad="""\
HANDLERS = {"not found": "create", "timeout": "again"}


def next_step(outcome):
    return HANDLERS[outcome.message]
""",
        good="""\
HANDLERS = {"ERR_HTTP_404": "create", "ERR_HTTP_TIMEOUT": "again"}


def next_step(outcome):
    return HANDLERS[outcome.code]
""",
    ),
    Rule(
        "RN105",
        "compare-whole-outcomes",
        Severity.ERROR,
        "Code compares two outcomes as a whole.",
        "Two outcomes of the same behaviour differ in timestamp, latency and ids. Compare a `DecisionView` of each.",
        bad="""\
def behaved_alike(outcome, recorded_outcome):
    return outcome == recorded_outcome
""",
        good="""\
from reenact.contracts.stability import DecisionView


def behaved_alike(outcome, recorded_outcome):
    return DecisionView(outcome) == DecisionView(recorded_outcome)
""",
    ),
    Rule(
        "RN106",
        "decide-on-error-text",
        Severity.WARNING,
        "Code decides on the text of an exception.",
        "Messages change with versions, languages and machines. The type of an error, its code or its errno does not.",
        bad="""\
def fetch(get, url):
    try:
        return get(url)
    except OSError as error:
        if "timed out" in str(error):
            return "ERR_TIMEOUT"
        raise
""",
        good="""\
def fetch(get, url):
    try:
        return get(url)
    except TimeoutError:
        return "ERR_TIMEOUT"
""",
    ),
)
