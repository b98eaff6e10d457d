"""Conditions inside comprehensions."""


def quick(outcomes):
    return [outcome.step_id for outcome in outcomes if outcome.latency_ms < 100]  # expect: RN101


def first_silent(results):
    return next((r for r in results if not r["message"]), None)  # expect: RN101


def by_step(results):
    return {r.step_id: r for r in results if r.timestamp > "2025"}  # expect: RN101
