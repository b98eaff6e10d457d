"""Whether something is there is structure, not content."""


def has_body(outcome):
    if "response_body" in outcome.details:
        return True
    if outcome.details.get("llm_output") is not None:
        return True
    return isinstance(outcome.details["response_body"], dict)


def status_of(outcome):
    return outcome.details["upstream_status"] == 503


def absent(outcome):
    return outcome.details is None
