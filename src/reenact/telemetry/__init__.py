"""Metrics and traces: Prometheus counters and OpenTelemetry spans.

`metrics` and `spans` are listeners of a runtime: in come notices, out come numbers and spans of this process.
`store_metrics` adds up the same numbers from the runs of a store, and `endpoint` serves them to a scraper. Replays are
compared and never counted as runs. Needs the extra `telemetry`. Begin with `metrics`.
"""
