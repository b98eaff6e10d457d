"""A plan that says everything a plan can say, and seeded ways to spoil it."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

RETRY = {
    "max_retries": 3, "backoff_base_ms": 0, "backoff_multiplier": 2, "max_backoff_ms": 0, "jitter_enabled": False,
    "jitter_max_ms": 0, "retryable_codes": ["ERR_TIMEOUT"],
}  # fmt: skip
WHOLE_PLAN: dict[str, Any] = {
    "plan_id": "whole",
    "agent_id": "agent",
    "goal": "say everything",
    "created_at": "2026-01-31T12:00:00Z",
    "steps": [
        {"step_id": "a", "skill_id": "steady", "skill_version": "1.0.0", "parameters": {"n": 1}},
        {
            "step_id": "b", "skill_id": "flaky", "skill_version": "1.0.0", "parameters": {"n": "{{a.n}}"},
            "on_error": "continue", "retry": {"max_retries": 1, "backoff_base_ms": 0}, "timeout_ms": 5000,
            "idempotency_key": "key",
        },
    ],
    "context": {
        "budget_cents": 1000,
        "budget": {
            "mode": "soft", "per_step_cents": 5, "per_day_cents": 500, "per_model_cents": {"stub": 5},
            "alert_percent": 50,
        },
        "allowed_skills": ["steady", "flaky"],
        "allow_hosts": ["127.0.0.1:1"],
        "dedupe": False,
        "supervisor": "auto",
        "retry": deepcopy(RETRY),
        "on_error": "abort",
        "timeout_ms": 60000,
        "profile": {
            "allowed_skills": None, "denied_skills": ["shell"], "disallowed_side_effects": ["mail"],
            "max_external_calls": 10, "hosts": ["example.com"],
        },
        "prices": {"models": {"stub": {"input": "0", "output": "1"}}, "version": "v"},
        "rate_limits": {
            "skills": {"steady": {"per_second": 1000, "burst": 10, "concurrent": 3}},
            "hosts": {"*": {"per_second": 0.5}},
        },
        "secret_fields": ["iban"],
        "workspace": None,
        "shell": {"allow": False, "workspace": None, "commands": ["ls"], "confine": "require", "readable": ["/usr"]},
        "tool_registries": [],
        "pins": {
            "taxonomy": "1.1.0",
            "prices": {
                "models": {"stub": {"input": "0", "output": "1"}},
                "skills": {
                    "steady@1.0.0": {"cost_estimate_cents": 1, "cost_model": None},
                    "flaky@1.0.0": {"cost_estimate_cents": 2, "cost_model": "tokens", "model": "stub"},
                },
                "version": "v",
            },
            "retry": {"default": deepcopy(RETRY), "flaky@1.0.0": deepcopy(RETRY)},
            "skills": {"steady@1.0.0": "0" * 64, "flaky@1.0.0": "1" * 64},
            "salt": "2" * 64,
            "side_effects": ["flaky@1.0.0"],
        },
    },
}  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 1.5, 1.0005, 3, 10**6, 10**11, 10**11 + 1, 2**53 - 1, 1e300, "", "x", "auto",
    "m:f", "a.b", "1.0.0", "1.1.0", "9.9.9", "01.0.0", "1.0.0-rc.1", "١.0.0", "steady", "flaky@1.0.0", "A B", "é" * 200,
    "0" * 64, "f" * 63, "-1", "3.00", "007", "1\n", "tokens", "soft", "abort", "continue", "2026-02-30T00:00:00Z",
    "2026-01-01T00:00:00", "2026-01-01T00:00:00+02:00", "yesterday", [], {}, [1], ["x"], {"x": 1}, {"": {}},
    {"skills": {}}, {"default": deepcopy(RETRY)}, {"input": "1", "output": "2"}, {"models": {}},
]  # fmt: skip
Path = tuple[str | int, ...]


def places(value: object, path: Path = ()) -> list[Path]:
    """Every place in a document, the document itself left out."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [place for key, item in items for place in ((*path, key), *places(item, (*path, key)))]


def mutated(document: dict[str, Any], source: random.Random) -> tuple[dict[str, Any], list[str]]:
    """A copy with one to three changes, and what they are."""
    changed, told = deepcopy(document), []
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        path = source.choice(places(changed))
        told.append(change(changed, path, source))
    return changed, told


def change(document: dict[str, Any], path: Path, source: random.Random) -> str:
    *way, last = path
    place: Any = document
    for part in way:
        place = place[part]
    how = source.choice(("set", "set", "set", "remove", "add", "rename", "swap"))
    if how == "remove":
        del place[last]
    elif how == "add" and isinstance(place[last], dict):
        place[last][source.choice(("x", "model", "version", "default", "steady@2.0.0"))] = source.choice(VALUES)
    elif how == "rename" and isinstance(place, dict):
        place[source.choice(("x", "flaky@2.0.0", "no reference", "stub"))] = place.pop(last)
    elif how == "swap" and isinstance(place, list):
        place.append(deepcopy(place[last]))
    else:
        place[last] = deepcopy(source.choice(VALUES))
        how = f"set {place[last]!r}"
    return f"{how} at {'/'.join(map(str, path))}"
