"""Nothing is known about this file."""


def broken(outcome):
    if outcome.code == "OK"  # expect: RN001
        return 1
