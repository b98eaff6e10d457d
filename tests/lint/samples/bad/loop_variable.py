"""Through a loop: the second pass sees what the first left."""


def walk(outcomes):
    last = ""
    for outcome in outcomes:
        if last > "2025":  # expect: RN101
            return outcome.code
        last = outcome.timestamp
    return None
