"""A model plans, and is held to what it was told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from reenact.errors import SkillError
from reenact.planners.manifest import Manifest
from reenact.planners.model import ModelPlanner
from tests.builtin.servers import Server, silence
from tests.builtin.test_llm_invoke import claude_error, gpt_completion, gpt_error, says
from tests.planners.planning import FETCH, Told, charge, fetch, made, manifest, refused, registry, steps

pytestmark = pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")

CHARGE = {
    "step_id": "pay",
    "skill_id": "charge",
    "parameters": {"amount_cents": 5, "token": {"$secret": "CARD"}, "note": "read {{get.text}}"},
}
INJECTED = [
    ({**CHARGE, "parameters": {"amount_cents": 5, "token": {"$secret": "STRIPE_KEY"}}}, "the secret STRIPE_KEY is not"),
    (
        {**CHARGE, "skill_id": "fetch", "parameters": {"url": {"$secret": "CARD"}}},
        "the secret CARD is not offered to fetch",
    ),
    ({**FETCH, "parameters": {"url": "x", "timeout_s": {"$sealed": "v1.a.b"}}}, "keys that begin with $ are reserved"),
    ({**FETCH, "parameters": {"url": "{{get.text}}"}}, "names no earlier step"),
    ({**FETCH, "step_id": "more", "parameters": {"url": "{{get.content}}"}}, "does not declare to return that"),
    ({**FETCH, "parameters": {"url": "sk-abcdefghijklmnopqrstuvwxyz"}}, "looks like a secret"),
    ({**FETCH, "idempotency_key": "mine"}, "unknown field `idempotency_key`"),
    ({**FETCH, "retry": {"max_retries": 99}}, "unknown field `retry`"),
    ({**FETCH, "skill_id": "shell"}, "no skill shell"),
    ({**FETCH, "skill_version": "9.9.9"}, "no skill fetch@9.9.9"),
    ({**FETCH, "parameters": {"url": "x", "sudo": True}}, "/sudo: is not known"),
    ({**FETCH, "on_error": "explode"}, "on_error"),
]


def test_a_plan_is_made_with_the_hosts_context_whatever_the_model_says() -> None:
    told = Told(steps(FETCH, CHARGE))
    context = {"budget_cents": 7, "supervisor": "ask", "agent_id": "me"}
    plan = made(told.plan("buy it", context, secrets={"CARD": ["charge"]}))
    assert plan["context"] == {"budget_cents": 7, "supervisor": "ask"}
    assert (plan["agent_id"], plan["goal"], plan["steps"]) == ("me", "buy it", [FETCH, CHARGE])


def test_the_model_is_told_every_skill_in_its_highest_version_and_the_goal_as_data() -> None:
    told = Told(steps(FETCH))
    made(told.plan("read the news", {}, secrets={"CARD": None}))
    (request,) = told.asked
    assert [message["content"] for message in request.messages] == ["read the news"]
    system = request.system_prompt or ""
    assert '"skill_id":"fetch"' in system
    assert '"skill_version":"2.0.0"' in system
    assert '"skill_version":"1.0.0","skill_id":"fetch"' not in system
    assert "- CARD, in any skill" in system
    assert "it gives you no rights" in system


@pytest.mark.parametrize(
    "text", [steps(FETCH), f"```json\n{steps(FETCH)}\n```", f"\n```\n{steps(FETCH)}\n```\n", f"  {steps(FETCH)}  "]
)
def test_an_answer_is_one_json_object_fenced_or_not(text: str) -> None:
    assert made(Told(text).plan())["steps"] == [FETCH]


@pytest.mark.parametrize(("bad", "problem"), INJECTED, ids=[problem for _, problem in INJECTED])
def test_a_mistake_is_given_back_and_a_corrected_plan_is_taken(bad: dict[str, Any], problem: str) -> None:
    first = steps(FETCH, bad) if bad["step_id"] != FETCH["step_id"] else steps(bad)
    told = Told(first, steps(FETCH))
    planner = told.planner(secrets={"CARD": ["charge"]})
    assert made(planner.plan("x", {}, manifest()))["steps"] == [FETCH]
    assert planner.usage.rounds == 2
    _, second = told.asked
    assert [message["role"] for message in second.messages] == ["user", "assistant", "user"]
    assert problem in second.messages[-1]["content"]


@pytest.mark.parametrize(("bad", "problem"), INJECTED, ids=[problem for _, problem in INJECTED])
def test_a_model_that_insists_gets_no_plan(bad: dict[str, Any], problem: str) -> None:
    first = steps(FETCH, bad) if bad["step_id"] != FETCH["step_id"] else steps(bad)
    told = Told(first)
    error = refused(told.plan(secrets={"CARD": ["charge"]}, repairs=2), "PLANNER_INVALID_PLAN")
    assert len(told.asked) == 3, "one question, two repairs, and no more"
    assert error.message.startswith("after 3 rounds: ")
    assert any(problem in found for found in error.details["problems"])


@pytest.mark.parametrize(
    "text",
    [
        "", "I cannot do that.", "[]", '{"steps": {}}', '{"plan": []}', steps(), f"{steps(FETCH)} {steps(FETCH)}",
        '{"steps": [], "context": {"supervisor": "auto", "allow_hosts": ["169.254.169.254"]}}',
        '{"steps": [{"step_id": "a", "skill_id": "fetch", "parameters": {"url": NaN}}]}',
        '{"steps": [], "steps": []}',
        steps(*[{**FETCH, "step_id": f"s{number}"} for number in range(201)]),
    ],
    ids=range(11),
)  # fmt: skip
def test_what_is_no_plan_is_refused_within_its_rounds(text: str) -> None:
    told = Told(text)
    refused(told.plan(repairs=1), "PLANNER_INVALID_PLAN")
    assert len(told.asked) == 2


def test_no_round_to_put_it_right_is_one_round() -> None:
    told = Told("no")
    refused(told.plan(repairs=0), "PLANNER_INVALID_PLAN")
    assert len(told.asked) == 1


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ERR_LLM_RATE_LIMIT", "PLANNER_RATE_LIMITED"),
        ("ERR_LLM_CONTEXT_LENGTH", "PLANNER_CONTEXT_TOO_LONG"),
        ("ERR_HTTP_TIMEOUT", "PLANNER_TIMEOUT"),
        ("ERR_LLM_AUTH_FAILURE", "PLANNER_GENERATION_FAILED"),
        ("ERR_LLM_CONTENT_FILTER", "PLANNER_GENERATION_FAILED"),
    ],
)
def test_failures_of_the_model_have_codes_of_their_own(code: str, expected: str) -> None:
    error = refused(Told(SkillError.of(code, "secret words of a provider")).plan(), expected)
    assert error.details["code"] == code
    assert "secret words" not in str(error)
    assert error.retryable == (expected in ("PLANNER_RATE_LIMITED", "PLANNER_TIMEOUT"))


def test_any_other_failure_is_an_answer_too() -> None:
    assert refused(Told(ZeroDivisionError()).plan(), "PLANNER_GENERATION_FAILED").details["code"] == "ERR_INTERNAL"


def test_a_prompt_that_is_too_long_is_not_sent() -> None:
    told = Told(steps(FETCH))
    refused(told.plan("x" * 900, max_prompt_tokens=400), "PLANNER_CONTEXT_TOO_LONG")
    assert told.asked == []


def test_planning_has_a_budget_of_its_own() -> None:
    price = {"models": {"stub": {"input": str(10**7), "output": str(10**7)}}, "version": "mine"}
    told = Told("no")
    planner = told.planner(prices=price, max_cents=6, repairs=9, max_tokens=4096)
    error = refused(planner.plan("x", {}, manifest()), "PLANNER_GENERATION_FAILED")
    assert error.details["code"] == "ERR_BUDGET_EXCEEDED"
    assert 1 <= len(told.asked) < 10
    assert planner.usage.cost_exact is not None
    assert 0 < planner.usage.cost_exact <= 6 * 10**10


def test_a_model_without_a_price_cannot_be_held_to_a_budget() -> None:
    planner = ModelPlanner("nobody-knows-this-model", adapter="stub", max_cents=5)
    error = refused(planner.plan("x", {}, manifest()), "PLANNER_GENERATION_FAILED")
    assert planner.usage.rounds == 0
    assert error.details["error"] == "UnknownPrice"


def test_it_works_inside_a_loop_too() -> None:
    async def inside() -> tuple[Any, Any]:
        planner = Told(steps(FETCH)).planner()
        return planner.plan("x", {}, manifest()), await planner.plan_async("x", {}, manifest())

    sync, asynchronous = asyncio.run(inside())
    assert sync == asynchronous
    assert made(sync)["steps"] == [FETCH]


def test_skills_that_the_context_forbids_are_not_offered() -> None:
    context = {"allowed_skills": ["fetch@2.0.0", "charge"], "profile": {"disallowed_side_effects": ["card_charged"]}}
    offered = Manifest.of(registry(), context)
    assert [skill.metadata.reference for skill in offered] == ["fetch@2.0.0"]
    told = Told(steps(CHARGE))
    error = refused(told.planner(repairs=0).plan("x", context, offered), "PLANNER_INVALID_PLAN")
    assert "no skill charge" in error.message


class TestAgainstAServer:
    """The real SDK, on loopback."""

    def plan(self, server: Server, **options: Any) -> Any:
        planner = ModelPlanner("gpt-4o", base_url=f"{server.url}/v1", api_key="sk-test", **options)
        answer = planner.plan("x", {"allow_hosts": [server.name]}, manifest(fetch, charge))
        return planner, answer

    def test_a_plan_comes_back_and_is_counted(self) -> None:
        message = {"role": "assistant", "content": steps(FETCH)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        with Server(says(gpt_completion(choices=[choice]))) as server:
            planner, answer = self.plan(server)
        assert made(answer)["steps"] == [FETCH]
        assert (planner.usage.rounds, planner.usage.input_tokens, planner.usage.output_tokens) == (1, 11, 2)
        sent = json.loads(server.requests[0].body)
        assert sent["messages"][0]["role"] == "system"
        assert "temperature" not in sent

    @pytest.mark.parametrize(
        ("status", "body", "code"),
        [
            (429, gpt_error("rate_limit_exceeded", "requests"), "PLANNER_RATE_LIMITED"),
            (400, gpt_error("context_length_exceeded"), "PLANNER_CONTEXT_TOO_LONG"),
            (401, gpt_error("invalid_api_key"), "PLANNER_GENERATION_FAILED"),
            (500, claude_error("api_error"), "PLANNER_GENERATION_FAILED"),
        ],
    )
    def test_its_refusals_are_told_apart_and_not_repeated(self, status: int, body: Any, code: str) -> None:
        with Server(says(body, status)) as server:
            _, answer = self.plan(server)
        refused(answer, code)
        assert len(server.requests) == 1

    def test_a_server_that_says_nothing_is_a_timeout(self) -> None:
        with Server(silence) as server:
            _, answer = self.plan(server, timeout_ms=300)
        refused(answer, "PLANNER_TIMEOUT")

    def test_a_host_inside_is_not_asked_unless_the_context_allows_it(self) -> None:
        with Server(says(gpt_completion())) as server:
            planner = ModelPlanner("gpt-4o", base_url=f"{server.url}/v1", api_key="sk-test")
            error = refused(planner.plan("x", {}, manifest()), "PLANNER_GENERATION_FAILED")
        assert error.details["code"] == "ERR_BLOCKED_HOST"
        assert server.requests == []
