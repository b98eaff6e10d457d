"""Skills to plan with, and a model that says what it is told to say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypedDict

from reenact import Registry, skill
from reenact.builtin.llm.messages import ModelRequest
from reenact.builtin.llm.stub import STUB_SERVICE
from reenact.planners.manifest import Manifest
from reenact.planners.model import ModelPlanner
from reenact.planners.planner import PlannerError
from reenact.skills.skill import Skill


class Page(TypedDict):
    text: str


@skill("fetch", version="1.0.0", tool_class="read")
def fetch_1(url: str) -> dict[str, str]:
    """Fetches, the old way."""
    return {"text": url}


@skill("fetch", version="2.0.0", tool_class="read", side_effects=["http_request"])
def fetch(url: str, timeout_s: int = 10) -> Page:
    """Fetches a page."""
    return {"text": url}


@skill("charge", version="1.0.0", tool_class="write", side_effects=["card_charged"])
def charge(amount_cents: int, token: str, note: str = "") -> dict[str, int]:
    """Charges a card."""
    return {"charged": amount_cents}


def registry() -> Registry:
    return Registry([fetch_1, fetch, charge])


def manifest(*skills: Skill) -> Manifest:
    return Manifest(skills or (fetch_1, fetch, charge))


FETCH = {"step_id": "get", "skill_id": "fetch", "skill_version": "2.0.0", "parameters": {"url": "https://example.com"}}


def steps(*items: dict[str, Any]) -> str:
    return json.dumps({"steps": list(items)})


class Told:
    """A model that gives its answers in order, and remembers what it was asked."""

    def __init__(self, *answers: str | Exception | Callable[[ModelRequest], str]) -> None:
        self.answers = list(answers)
        self.asked: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> str:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else answer(request)

    def planner(self, **options: Any) -> ModelPlanner:
        return ModelPlanner("stub", services={STUB_SERVICE: self}, **options)

    def plan(
        self, goal: str = "do it", context: dict[str, Any] | None = None, *skills: Skill, **options: Any
    ) -> dict[str, Any] | PlannerError:
        return self.planner(**options).plan(goal, context or {}, manifest(*skills))


def refused(answer: dict[str, Any] | PlannerError, code: str) -> PlannerError:
    assert isinstance(answer, PlannerError), answer
    assert answer.code == code, answer
    return answer


def made(answer: dict[str, Any] | PlannerError) -> dict[str, Any]:
    assert isinstance(answer, dict), answer
    return answer
