"""What breaks determinism is named before anything runs, and each detector is needed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import structs

from reenact import Registry
from reenact.errors import DeterminismBroken
from reenact.replay import replay
from reenact.replay.breakers import find_breakers
from reenact.skills.skill import Skill
from tests.replay.compare.mutating import recording, redeclared
from tests.replay.recording import memory_runtime, mocked
from tests.replay.skills import SKILLS, registry


def without(reference: str) -> Registry:
    return Registry(skill for skill in SKILLS if skill.metadata.reference != reference)


def changed(reference: str) -> Registry:
    def other(skill: Skill) -> Skill:
        return redeclared(skill, timeout_ms=29_000) if skill.metadata.reference == reference else skill

    return Registry(other(skill) for skill in SKILLS)


def plan(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    document = deepcopy(recording().document)
    change(document["context"])
    return document


# kind → (recorded plan or a changed one, registry, where it is named, the function that finds it)
BREAKERS: dict[str, tuple[dict[str, Any] | None, Registry, str, str]] = {
    "skill_missing": (None, without("keyed@1.0.0"), "keyed@1.0.0", "skill_breakers"),
    "skill_changed": (None, changed("keyed@1.0.0"), "keyed@1.0.0", "skill_breakers"),
    "taxonomy": (
        plan(lambda context: context["pins"].update(taxonomy="0.9.0")), registry(),
        "pins.taxonomy", "taxonomy_breakers",
    ),
    "retry_policy": (
        plan(lambda context: context["retry"].update(max_retries=9)), registry(), "step fetch", "retry_breakers",
    ),
    "budget_policy": (
        plan(lambda context: context.update(budget={"mode": "soft"})), registry(), "context.mode", "budget_breakers",
    ),
    "price_table": (
        plan(lambda context: context["pins"]["prices"]["models"]["gpt-4o"].update(input="1")), registry(),
        "pins.prices.models.gpt-4o", "price_breakers",
    ),
    "plan": (
        plan(lambda context: context.update(allowed_skills=[])), registry(), "context.allowed_skills", "plan_breakers",
    ),
}  # fmt: skip


def test_a_plan_that_is_as_recorded_has_none() -> None:
    assert find_breakers(recording().document, recording().document, registry()) == []


@pytest.mark.parametrize("kind", BREAKERS)
def test_a_breaker_is_named_with_its_kind_and_place(kind: str) -> None:
    document, skills, where, _ = BREAKERS[kind]
    found = find_breakers(recording().document, document or recording().document, skills)

    assert (kind, where) in [(breaker.kind, breaker.where) for breaker in found]
    assert all(breaker.message and "\n" not in breaker.message for breaker in found)


@pytest.mark.parametrize("kind", BREAKERS)
def test_without_its_detector_a_breaker_goes_unnamed(kind: str) -> None:
    document, skills, where, detector = BREAKERS[kind]
    with patch(f"reenact.replay.breakers.{detector}", lambda *_: iter(())):
        found = find_breakers(recording().document, document or recording().document, skills)

    assert (kind, where) not in [(breaker.kind, breaker.where) for breaker in found]


def test_another_taxonomy_today_is_named_too() -> None:
    with patch("reenact.replay.breakers.TAXONOMY_VERSION", "2.0.0"):
        found = find_breakers(recording().document, recording().document, registry())

    assert [(breaker.kind, breaker.found) for breaker in found] == [("taxonomy", "2.0.0")]


@pytest.mark.parametrize("skills", [without("reader@1.0.0"), changed("reader@1.0.0")], ids=["missing", "changed"])
def test_a_full_replay_is_refused_before_anything_runs(skills: Registry) -> None:
    called: list[str] = []
    runtime = memory_runtime(skills)
    runtime.listeners = (lambda notice: called.append(notice.kind),)
    source = recording()
    with (
        patch("reenact.replay.api.load", lambda *_: source),
        pytest.raises(DeterminismBroken, match=r"reader@1\.0\.0.*nothing was run") as caught,
    ):
        replay(runtime, source.run_id, mode="full_replay")

    assert caught.value.exit_code == 1
    assert called == []
    assert runtime.store.runs() == []


def test_a_mock_replay_misses_no_skill_that_it_only_serves() -> None:
    assert mocked(recording(), without("keyed@1.0.0")).breakers == ()
    named = mocked(recording(), changed("keyed@1.0.0"))
    assert [breaker.kind for breaker in named.breakers] == ["skill_changed"]
    assert named.matches, "another time limit is another definition, and here no other behaviour"


def test_declarations_that_matter_are_part_of_a_definition() -> None:
    keyed = next(skill for skill in SKILLS if skill.skill_id == "keyed")
    others = [
        {"honours_key": False}, {"idempotent": True}, {"cost_estimate_cents": 9}, {"side_effects": ()},
        {"tool_class": "read"}, {"timeout_ms": 1}, {"retry": {"max_retries": 1}},
    ]  # fmt: skip

    digests = {
        Skill(keyed.function, structs.replace(keyed.metadata, **fields), keyed._signature).digest for fields in others
    }
    assert len(digests | {keyed.digest}) == len(others) + 1
