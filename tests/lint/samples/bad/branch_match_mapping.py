"""A mapping pattern that captures a forbidden field for its guard, and one that names its value."""


def next_step(result):
    match result:
        case {"latency_ms": ms} if ms > 100:  # expect: RN101
            return "slow"
        case {"message": "gone"}:  # expect: RN101
            return "stop"
        case {"code": "OK"}:
            return "done"
    return "retry"
