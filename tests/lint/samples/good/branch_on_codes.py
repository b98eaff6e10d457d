"""Deterministic fields may decide."""


def next_step(outcome):
    if outcome.code == "ERR_HTTP_503" and outcome.retryable:
        return "retry"
    match outcome.status:
        case "success":
            return "done"
        case "failure":
            return "stop"
    return "look" if outcome.cost_cents > 5 else "skip"


def by_retries(outcomes):
    return sorted(outcomes, key=lambda outcome: (outcome.observability.backend_retries, outcome.step_id))


def effects(outcome):
    return [effect for effect in outcome.side_effects if effect["type"] == "http_request"]
