"""A loop that runs as often as a forbidden field says."""


def pause(outcome, wait):
    for _ in range(outcome.latency_ms // 100):  # expect: RN101
        wait()
