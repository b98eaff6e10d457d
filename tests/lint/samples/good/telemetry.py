"""Metrics and spans are for people."""


def record(span, histogram, outcome):
    span.set_attribute("latency", outcome.latency_ms > 100)
    histogram.observe(outcome.latency_ms / 1000)
    span.add_event(outcome.message or "none", {"at": max(outcome.timestamp, "")})
