"""Values bound in try and with."""


def choose(outcome, lock):
    text = ""
    try:
        text = outcome.message
    except AttributeError:
        pass
    with lock:
        if text:  # expect: RN101
            return 1
    return 0
