"""A helper may format, and may decide on what is deterministic."""


def shorten(text, length=40):
    return text[:length]


def is_ok(outcome):
    return outcome.code == "OK"


def describe(outcome):
    if is_ok(outcome):
        return shorten(outcome.message)
    return shorten(f"{outcome.code}: {outcome.message}", length=20)


def decide(facts):
    return facts["code"] == "OK"


def field_of_record(outcome):
    return decide({"code": outcome.code, "ms": outcome.latency_ms})
