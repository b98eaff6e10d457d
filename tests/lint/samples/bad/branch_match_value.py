"""A match statement on a forbidden field."""


def next_step(outcome):
    match outcome.message:
        case "not found":  # expect: RN101
            return "create"
        case _:
            return "stop"
