"""Errors told apart by their words."""


def code_of(get):
    try:
        return get()
    except OSError as error:
        if "refused" in str(error):  # expect: RN106
            return "ERR_CONNECTION_REFUSED"
        text = f"{error}".lower()
        if text.startswith("dns"):  # expect: RN106
            return "ERR_DNS_FAILURE"
        return "ERR_UNKNOWN"


def code_of_message(get):
    try:
        return get()
    except ValueError as problem:
        return "A" if problem.message == "a" else "B"  # expect: RN106
