"""Through lists, dicts and sets."""


def in_dict(outcome):
    facts = {"code": outcome.code, "ms": outcome.latency_ms}
    if facts["ms"] > 10:  # expect: RN101
        return facts["code"]
    return None


def in_list(outcomes):
    latencies = []
    for outcome in outcomes:
        latencies.append(outcome.latency_ms)
    return sum(latencies) / len(latencies) > 100  # expect: RN102


def stored(outcome):
    facts = {}
    facts["text"] = outcome.message
    return facts["text"] == ""  # expect: RN102


def merged(outcome, rest):
    facts = {**rest, "ms": outcome.latency_ms}
    return facts.get("ms") > 3  # expect: RN102
