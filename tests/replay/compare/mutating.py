"""How a mutation is made and replayed: in the record, in the plan, in the code or in a skill's declaration."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal
from unittest.mock import patch

from msgspec import structs

from reenact import Registry
from reenact.replay import Recording, ReplayResult
from reenact.skills.skill import Skill
from tests.replay.compare.forge import Forge
from tests.replay.recording import mocked, recorded
from tests.replay.skills import SKILLS

Kind = Literal["recording", "policy", "code"]

PLAN: dict[str, Any] = {
    "plan_id": "mutated",
    "agent_id": "agent",
    "goal": "everything once",
    "steps": [
        {"step_id": "fetch", "skill_id": "reader", "skill_version": "1.0.0",
         "parameters": {"script": ["503", "timeout", "ok"], "value": 1}},
        {"step_id": "next", "skill_id": "reader", "skill_version": "1.1.0",
         "parameters": {"script": ["429", "ok"], "value": "{{fetch.value}}"}},
        {"step_id": "pay", "skill_id": "writer", "skill_version": "2.0.0",
         "parameters": {"script": ["refused", "503"], "value": 2}},
        {"step_id": "mail", "skill_id": "keyed", "skill_version": "1.0.0", "idempotency_key": "k1",
         "parameters": {"script": ["500", "ok"], "value": 3}},
        {"step_id": "mail2", "skill_id": "keyed", "skill_version": "1.0.0", "idempotency_key": "k1",
         "parameters": {"script": ["500", "ok"], "value": 3}},
        {"step_id": "ask", "skill_id": "model", "skill_version": "1.0.0",
         "parameters": {"script": ["ok"], "prompt": "a question of some length", "model": "gpt-4o"}},
        {"step_id": "same", "skill_id": "reader", "skill_version": "1.0.0",
         "parameters": {"script": ["503", "timeout", "ok"], "value": 1}},
        {"step_id": "odd", "skill_id": "plain", "skill_version": "0.1.0", "parameters": {"script": ["404"]}},
        {"step_id": "bad", "skill_id": "plain", "skill_version": "0.1.0", "parameters": {"script": "no list"}},
        {"step_id": "never", "skill_id": "writer", "skill_version": "1.0.0", "parameters": {"script": []}},
        {"step_id": "spent", "skill_id": "reader", "skill_version": "1.1.0",
         "parameters": {"script": ["503"], "value": 9}, "retry": {"max_retries": 5}},
        {"step_id": "poor", "skill_id": "writer", "skill_version": "2.0.0",
         "parameters": {"script": ["ok"], "value": 5}},
        {"step_id": "last", "skill_id": "plain", "skill_version": "0.1.0", "on_error": "abort",
         "parameters": {"script": ["json"]}},
        {"step_id": "after", "skill_id": "plain", "skill_version": "0.1.0", "parameters": {"script": ["ok"]}},
    ],
    "context": {"on_error": "continue", "dedupe": True, "budget_cents": 13, "retry": {"backoff_base_ms": 50}},
}  # fmt: skip


@cache
def recording() -> Recording:
    return recorded(PLAN)


@cache
def crashed_recording() -> Recording:
    """The same plan, killed three times."""
    return recorded(PLAN, (("after_dispatch", 1), ("in_backoff", 3), ("before_dispatch", 4)))


@dataclass(frozen=True)
class Mutation:
    """`replayed` gives the replay of the mutated whole; `step` and `aspect` are to blame."""

    name: str
    kind: Kind
    step: str
    aspect: str
    replayed: Callable[[], ReplayResult]


MUTATIONS: list[Mutation] = []


def in_recording(
    step: str, aspect: str, *, base: Callable[[], Recording] = recording
) -> Callable[[Callable[[Forge], None]], Any]:
    def register(change: Callable[[Forge], None]) -> Callable[[Forge], None]:
        def replayed() -> ReplayResult:
            forge = Forge(base())
            change(forge)
            return mocked(forge.recording())

        MUTATIONS.append(Mutation(change.__name__, "recording", step, aspect, replayed))
        return change

    return register


def in_plan(step: str, aspect: str) -> Callable[[Callable[[dict[str, Any]], None]], Any]:
    def register(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
        def replayed() -> ReplayResult:
            document = deepcopy(recording().document)
            change(document)
            return mocked(recording(), document=document)

        MUTATIONS.append(Mutation(change.__name__, "policy", step, aspect, replayed))
        return change

    return register


def in_code(
    step: str, aspect: str, target: str, *, kind: Kind = "code", base: Callable[[], Recording] = recording
) -> Callable[[Callable[..., Any]], Any]:
    """The function below stands in the place of `target` while the replay runs."""

    def register(stand_in: Callable[..., Any]) -> Callable[..., Any]:
        def replayed() -> ReplayResult:
            with patch(target, stand_in):
                return mocked(base())

        MUTATIONS.append(Mutation(stand_in.__name__, kind, step, aspect, replayed))
        return stand_in

    return register


def with_patches(name: str, step: str, aspect: str, patches: dict[str, Any], *, kind: Kind = "code") -> None:
    """Values in the place of others while the replay runs."""

    def replayed() -> ReplayResult:
        with ExitStack() as stack:
            for target, value in patches.items():
                stack.enter_context(patch(target, value))
            return mocked(recording())

    MUTATIONS.append(Mutation(name, kind, step, aspect, replayed))


def in_skill(step: str, aspect: str) -> Callable[[Callable[[Skill], Skill]], Any]:
    """The skill of the step, declared otherwise under the same version."""

    def register(change: Callable[[Skill], Skill]) -> Callable[[Skill], Skill]:
        def replayed() -> ReplayResult:
            planned = next(item for item in PLAN["steps"] if item["step_id"] == step)
            reference = f"{planned['skill_id']}@{planned['skill_version']}"
            changed = [change(item) if item.metadata.reference == reference else item for item in SKILLS]
            return mocked(recording(), Registry(changed))

        MUTATIONS.append(Mutation(change.__name__, "code", step, aspect, replayed))
        return change

    return register


def redeclared(skill: Skill, **fields: Any) -> Skill:
    return Skill(skill.function, structs.replace(skill.metadata, **fields), skill._signature)
