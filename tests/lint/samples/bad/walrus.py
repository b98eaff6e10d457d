"""Through an assignment expression."""


def choose(outcome):
    if (latency := outcome.latency_ms) > 100:  # expect: RN101
        return latency
    return 0


def later(outcomes):
    texts = [text for outcome in outcomes if (text := outcome.message)]  # expect: RN101
    return texts


def kept(outcome, show):
    show(text := outcome.message)
    return text == "gone"  # expect: RN102
