"""External content in details."""


def body(outcome):
    if outcome.details["response_body"]["status"] == "ready":  # expect: RN101
        return "go"
    return "wait"


def words(outcome):
    details = outcome.details
    text = details.get("llm_output", "")
    if "yes" in text.lower():  # expect: RN101
        return True
    return False


def parsed(result):
    import json

    data = json.loads(result.details["response_body"])
    if data["total"] > 3:  # expect: RN101
        return data
    return None
