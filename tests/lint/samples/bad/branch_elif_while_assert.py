"""The other statements that branch."""


def choose(outcome, again):
    if outcome.code == "OK":
        return "done"
    elif outcome.message:  # expect: RN101
        return "look"
    while outcome.latency_ms < 10:  # expect: RN101
        outcome = again()
    assert outcome.timestamp > "2025"  # expect: RN101
    return "stop"
