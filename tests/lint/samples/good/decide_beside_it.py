"""A record holds a forbidden field; another field of it decides."""
from dataclasses import dataclass


@dataclass
class Row:
    code: str
    took: int


def as_dict(outcome):
    facts = {"code": outcome.code, "ms": outcome.latency_ms}
    if facts["code"] == "OK":
        return facts["ms"]
    return 0


def as_tuple(outcome):
    code, ms = outcome.code, outcome.latency_ms
    if code == "OK":
        return ms
    return 0


def as_record(outcome):
    row = Row(outcome.code, outcome.latency_ms)
    if row.code == "OK":
        return row.took
    return 0


def as_call(outcome):
    def both():
        return outcome.code, outcome.message

    code, message = both()
    return message if code == "OK" else ""
