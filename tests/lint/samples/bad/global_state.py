"""Through a module's globals."""
STATE = {"last": 0}
LATEST = None


def observe(outcome):
    global LATEST
    STATE["last"] = outcome.latency_ms
    LATEST = outcome.message


def decide():
    if STATE["last"] > 100:  # expect: RN101
        return "slow"
    return "gone" if LATEST == "gone" else "here"  # expect: RN101
