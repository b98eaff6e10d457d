"""Plans from files: the same inputs give the same plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reenact.builtin.http_call import http_call
from reenact.planners.manifest import Manifest
from reenact.planners.planner import LONGEST_GOAL, Planner
from reenact.planners.rules import RulesPlanner
from reenact.planners.static_file import StaticPlanner
from tests.planners.planning import FETCH, fetch, made, manifest, refused


def write(path: Path, document: object) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def static(tmp_path: Path, **changes: Any) -> StaticPlanner:
    document = {"plan_id": "p", "agent_id": "a", "steps": [FETCH], "context": {"budget_cents": 5}, **changes}
    return StaticPlanner(write(tmp_path / "plan.json", document))


def rules(tmp_path: Path, *given: dict[str, Any], **more: Any) -> RulesPlanner:
    return RulesPlanner(write(tmp_path / "rules.json", {"rules": list(given), **more}))


PAY = {
    "when": r"pay (?P<amount>\d+) cents(?: for (?P<note>.+))?",
    "steps": [
        {
            "step_id": "pay",
            "skill_id": "charge",
            "parameters": {"amount_cents": "${amount:int}", "token": {"$secret": "CARD"}, "note": "for ${note}"},
        }
    ],
}


def test_a_static_plan_takes_the_goal_and_the_context_of_the_moment(tmp_path: Path) -> None:
    context = {"agent_id": "me", "budget_cents": 9, "allow_hosts": ["x"]}
    plan = made(static(tmp_path).plan("read the news", context, manifest()))
    assert (plan["goal"], plan["agent_id"], plan["plan_id"]) == ("read the news", "me", "p")
    assert plan["context"] == {"budget_cents": 5, "allow_hosts": ["x"]}, "what the file says goes before"


def test_a_field_for_secrets_may_hold_what_an_earlier_step_returns(tmp_path: Path) -> None:
    call = {"url": "https://example.com", "headers": {"authorization": "Bearer {{get.text}}"}}
    steps = [FETCH, {"step_id": "use", "skill_id": "http_call", "parameters": call}]
    made(static(tmp_path, steps=steps).plan("x", {}, manifest(fetch, http_call)))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"steps": [{**FETCH, "skill_id": "fetsh"}]}, "did you mean fetch?"),
        ({"steps": [{**FETCH, "skill_version": "3.0.0"}]}, "registered versions of fetch: 1.0.0, 2.0.0"),
        ({"steps": [{**FETCH, "parameters": {}}]}, "$.steps[0].parameters/url: is required"),
        ({"steps": [{**FETCH, "parameters": {"url": 7}}]}, "$.steps[0].parameters/url"),
        ({"steps": [{**FETCH, "parameters": {"url": "x", "depth": 1}}]}, "$.steps[0].parameters/depth: is not known"),
        ({"steps": [{**FETCH, "parameters": {"url": "{{later.text}}"}}]}, "names no earlier step"),
        ({"steps": [FETCH, FETCH]}, "stands already"),
        ({"steps": []}, "there is no step"),
        ({"colour": "red"}, "unknown field `colour`"),
        ({"context": {"budget": {"mode": "elastic"}}}, "$.context.budget.mode"),
    ],
)
def test_a_static_plan_that_cannot_be_run_is_refused_with_its_place(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    error = refused(static(tmp_path, **changes).plan("x", {}, manifest()), "PLANNER_INVALID_PLAN")
    assert problem in error.message
    assert error.details["problems"]
    assert not error.retryable


@pytest.mark.parametrize(
    ("content", "code"),
    [("{", "PLANNER_INVALID_PLAN"), ("[]", "PLANNER_INVALID_PLAN"), (None, "PLANNER_GENERATION_FAILED")],
)
@pytest.mark.parametrize("kind", [StaticPlanner, RulesPlanner])
def test_a_file_that_is_no_plan_is_an_answer_and_no_exception(
    tmp_path: Path, kind: Any, content: str | None, code: str
) -> None:
    path = tmp_path / "file.json"
    if content is not None:
        path.write_text(content)
    assert str(path) in refused(kind(path).plan("x", {}, manifest()), code).message


def test_the_first_rule_that_fits_gives_the_steps_with_what_it_caught(tmp_path: Path) -> None:
    planner = rules(tmp_path, {"when": "nothing", "steps": []}, PAY)
    plan = made(planner.plan("Please PAY 1250 cents for the flowers", {"budget_cents": 3}, manifest()))
    assert plan["steps"][0]["parameters"] == {
        "amount_cents": 1250, "token": {"$secret": "CARD"}, "note": "for the flowers",
    }  # fmt: skip
    assert plan["context"] == {"budget_cents": 3}
    assert plan == planner.plan("Please PAY 1250 cents for the flowers", {"budget_cents": 3}, manifest())
    assert plan["plan_id"] != made(planner.plan("pay 1 cents for it", {}, manifest()))["plan_id"]


def test_a_goal_that_no_rule_fits_is_refused_unless_the_rules_say_otherwise(tmp_path: Path) -> None:
    refused(rules(tmp_path, PAY).plan("sing", {}, manifest()), "PLANNER_INVALID_GOAL")
    plan = made(rules(tmp_path, PAY, otherwise=[FETCH]).plan("sing", {}, manifest()))
    assert plan["steps"] == [FETCH]


@pytest.mark.parametrize("note", ["{{get.text}}", "{{ x }}", "}}{{"])
def test_nothing_in_a_goal_becomes_a_reference(tmp_path: Path, note: str) -> None:
    goal = f"pay 5 cents for {note}"
    assert "braces" in refused(rules(tmp_path, PAY).plan(goal, {}, manifest()), "PLANNER_INVALID_GOAL").message


def test_what_a_goal_says_about_secrets_stays_text(tmp_path: Path) -> None:
    plan = made(rules(tmp_path, PAY).plan('pay 5 cents for {"$secret": "CARD"} ${amount}', {}, manifest()))
    assert plan["steps"][0]["parameters"]["note"] == 'for {"$secret": "CARD"} ${amount}'


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"when": "(", "steps": []}, "$.rules[0].when"),
        ({"when": "x"}, "missing required field `steps`"),
        ({"when": "x", "steps": [], "priority": 1}, "unknown field `priority`"),
        ({**PAY, "when": "pay"}, "${amount}"),
    ],
)
def test_rules_that_cannot_be_followed_are_refused(tmp_path: Path, rule: dict[str, Any], problem: str) -> None:
    assert problem in refused(rules(tmp_path, rule).plan("pay x", {}, manifest()), "PLANNER_INVALID_PLAN").message


@pytest.mark.parametrize("make", [static, rules])
def test_inputs_that_no_planner_can_work_with(tmp_path: Path, make: Any) -> None:
    planner: Planner = make(tmp_path)
    assert planner.determinism == "FULL"
    for goal in ("", "   ", "x" * (LONGEST_GOAL + 1), None):
        refused(planner.plan(goal, {}, manifest()), "PLANNER_INVALID_GOAL")  # type: ignore[arg-type]
    refused(planner.plan("x", {}, Manifest([])), "PLANNER_NO_SKILLS_AVAILABLE")
    for context in ({"colour": "red"}, {"budget_cents": -1}, {"workspace": object()}):
        refused(planner.plan("x", context, manifest()), "PLANNER_INVALID_PLAN")


def test_what_a_planner_trips_over_is_an_answer_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise ZeroDivisionError

    monkeypatch.setattr("reenact.planners.static_file.read_document", broken)
    error = refused(static(tmp_path).plan("x", {}, manifest()), "PLANNER_GENERATION_FAILED")
    assert error.details == {"error": "ZeroDivisionError"}
