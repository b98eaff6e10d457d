"""A name that no longer holds a forbidden field."""


def choose(outcome):
    value = outcome.message
    print(value)
    value = outcome.code
    if value == "OK":
        return 1
    return 0


def early(outcome, quick):
    value = outcome.code
    if quick:
        value = outcome.message
        return value
    return 1 if value == "OK" else 0
