"""Methods that ask about a text."""


def limited(outcome):
    return outcome.message.startswith("Rate")  # expect: RN102


def numeric(outcome):
    return outcome.details["llm_output"].strip().isdigit()  # expect: RN102
