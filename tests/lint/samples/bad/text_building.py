"""Through f-strings, concatenation, format, join and slices."""


def formatted(outcome):
    line = f"{outcome.code}: {outcome.message}"
    return line == "OK: done"  # expect: RN102


def added(outcome):
    line = outcome.code + " " + outcome.message
    if line:  # expect: RN101
        return line
    return None


def percent(outcome):
    return "%s" % outcome.message == "gone"  # expect: RN102


def joined(outcome):
    line = "-".join([outcome.code, outcome.timestamp])
    return 1 if line > "x" else 0  # expect: RN101


def sliced(outcome):
    day = outcome.timestamp[:10]
    return day == "2025-12-01"  # expect: RN102


def called(outcome):
    return "{}".format(outcome.message).lower() == "gone"  # expect: RN102
