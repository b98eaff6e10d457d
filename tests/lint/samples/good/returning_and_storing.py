"""To return, store or pass on a forbidden field is fine."""


def summary(outcome):
    return {"code": outcome.code, "message": outcome.message, "ms": outcome.latency_ms}


def text(outcome):
    return f"{outcome.timestamp} {outcome.message}"


def first_message(outcomes):
    for outcome in outcomes:
        if outcome.code != "OK":
            return outcome.message
    return ""


def total(outcomes):
    return sum(outcome.latency_ms for outcome in outcomes)


def default(outcome, fallback):
    text = outcome.message or "no message"
    return text or fallback


async def forward(session, outcome):
    return await session.call("notify", {"text": outcome.message, "at": outcome.timestamp})
