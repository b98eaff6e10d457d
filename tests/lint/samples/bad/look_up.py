"""Tables of handlers, slices and attributes by a forbidden field."""


def handler(outcome, handlers):
    return handlers[outcome.message]()  # expect: RN104


def part(outcome, items):
    return items[: outcome.latency_ms]  # expect: RN104


def by_name(outcome, module):
    return getattr(module, outcome.details["llm_output"])  # expect: RN104


def known(outcome):
    table = {"gone": 1}
    return table.get(outcome.message)  # expect: RN104
