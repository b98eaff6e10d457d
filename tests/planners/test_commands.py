"""`reenact plan` and `reenact simulate` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reenact.contracts.plan import plan_hash
from tests.builtin.servers import Server
from tests.builtin.test_llm_invoke import gpt_completion, says
from tests.cli.harness import SKILLS, Command, error_line
from tests.planners.planning import steps

ECHO = {"step_id": "say", "skill_id": "steady", "parameters": {"text": "hello"}}


@pytest.fixture
def reenact(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "template.json"
    path.write_text(json.dumps({"plan_id": "p", "agent_id": "a", "steps": [ECHO]}))
    return path


def test_a_plan_is_written_with_everything_pinned_and_runs(reenact: Command, plan_file: Path) -> None:
    done = reenact(
        "plan", "say hello", "--planner", f"static:{plan_file}", "-o", "out.json", "--budget", "5", "--agent", "me",
        "--skills", SKILLS,
    )  # fmt: skip
    assert done.code == 0, done.err
    plan = json.loads((reenact.folder / "out.json").read_text())
    assert plan["steps"][0]["skill_version"]
    assert (plan["goal"], plan["agent_id"], plan["context"]["budget_cents"]) == ("say hello", "me", 5)
    pins = plan["context"]["pins"]
    assert set(pins) == {"taxonomy", "prices", "retry", "skills", "salt"}
    assert done.out == f"out.json {plan_hash(plan)}\n"
    assert reenact("simulate", "out.json", "--skills", SKILLS).code == 0
    assert reenact("run", "out.json", "--skills", SKILLS).code == 0


def test_without_a_file_the_plan_goes_to_stdout_alone(reenact: Command, plan_file: Path) -> None:
    done = reenact("plan", "x", "--planner", f"static:{plan_file}", "--skills", SKILLS)
    assert json.loads(done.out)["context"]["pins"]["salt"]
    assert done.err.startswith("sha256:")
    as_json = reenact("plan", "x", "--planner", f"static:{plan_file}", "--skills", SKILLS, "--json").json
    assert as_json["planner"]["determinism"] == "FULL"
    assert as_json["plan"]["goal"] == "x"


def test_a_model_without_a_price_is_told(reenact: Command) -> None:
    path = reenact.plan({"skill_id": "llm_invoke", "parameters": {"prompt": "x", "model": "nobody-knows-it"}})
    done = reenact("plan", "x", "--planner", f"static:{path}", "-o", "out.json")
    assert done.code == 0
    assert "no price is known for nobody-knows-it" in done.err
    assert reenact("simulate", "out.json").code == 1


@pytest.mark.parametrize("planner", ["static", "magic:x", "static:", "model"])
def test_a_planner_that_does_not_exist_is_a_usage_error(reenact: Command, planner: str) -> None:
    done = reenact("plan", "x", "--planner", planner)
    assert done.code == 2
    assert "static:FILE, rules:FILE or model:NAME" in error_line(done)


def test_no_plan_is_one_line_and_exit_code_one(reenact: Command, plan_file: Path) -> None:
    done = reenact("plan", "x", "--planner", f"static:{plan_file}")
    assert done.code == 1
    assert error_line(done).startswith("$.steps[0].skill_id: no skill steady")
    as_json = reenact("plan", "", "--planner", f"static:{plan_file}", "--json")
    assert as_json.code == 1
    assert as_json.json["error"]["code"] == "PLANNER_INVALID_GOAL"


def test_a_secret_in_the_goal_is_refused(reenact: Command, plan_file: Path) -> None:
    done = reenact(
        "plan", "use sk-abcdefghijklmnopqrstuvwxyz", "--planner", f"static:{plan_file}", "--skills", SKILLS,
    )  # fmt: skip
    assert done.code == 2
    assert "$.goal looks like a secret" in error_line(done)


@pytest.mark.parametrize(("content", "code"), [("[]", 2), ("{", 2), (None, 3), ('{"colour": 1}', 1)])
def test_a_context_that_cannot_be_used_is_told(
    reenact: Command, plan_file: Path, content: str | None, code: int
) -> None:
    if content is not None:
        (reenact.folder / "context.json").write_text(content)
    done = reenact("plan", "x", "--planner", f"static:{plan_file}", "--context", "context.json", "--skills", SKILLS)
    assert done.code == code
    assert error_line(done)


def test_a_file_that_cannot_be_written_is_told(reenact: Command, plan_file: Path) -> None:
    done = reenact("plan", "x", "--planner", f"static:{plan_file}", "--skills", SKILLS, "-o", "no/such/folder.json")
    assert done.code == 3
    assert "cannot be written" in error_line(done)


def test_a_model_plans_over_the_wire_and_gets_only_the_secrets_that_are_offered(reenact: Command) -> None:
    wish: dict[str, Any] = {"step_id": "say", "skill_id": "steady", "parameters": {"text": {"$secret": "OURS"}}}
    message = {"role": "assistant", "content": steps(wish)}
    reply = gpt_completion(choices=[{"index": 0, "message": message, "finish_reason": "stop"}])
    with Server(says(reply)) as server:
        (reenact.folder / "context.json").write_text(json.dumps({"allow_hosts": [server.name]}))
        arguments = (
            "plan", "say it", "--planner", "model:gpt-4o", "--base-url", f"{server.url}/v1",
            "--api-key-from", "OUR_KEY", "--context", "context.json", "--skills", SKILLS, "--repairs", "0", "--json",
        )  # fmt: skip
        refused = reenact(*arguments, OUR_KEY="sk-test")
        made = reenact(*arguments, "--secret", "OURS=steady", OUR_KEY="sk-test")
    assert refused.json["error"]["code"] == "PLANNER_INVALID_PLAN"
    assert "the secret OURS is not offered to steady" in refused.json["error"]["message"]
    assert made.code == 0, made.err
    assert made.json["planner"]["usage"]["rounds"] == 1
    assert made.json["plan"]["context"]["allow_hosts"] == [server.name]
    assert server.requests[0].headers["authorization"] == "Bearer sk-test"


def test_a_simulation_is_printed_for_people_and_for_programs(reenact: Command) -> None:
    path = reenact.plan(
        {"skill_id": "http_call", "parameters": {"url": "https://example.com"}},
        {"skill_id": "kv_store", "parameters": {"operation": "set", "key": "k", "value": "{{s0.body}}"}},
        budget_cents=10,
        supervisor="ask",
    )
    done = reenact("simulate", path)
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].startswith("feasible  sha256:")
    assert "  asks      a person, at s1" in done.out
    assert not reenact.store.exists(), "asking makes no store"
    answer = reenact("simulate", path, "--json").json
    assert (answer["feasible"], answer["budget_cents"], answer["asks_persons_at"]) == (True, 10, ["s1"])


def test_what_is_not_feasible_exits_with_one(reenact: Command) -> None:
    path = reenact.plan({"skill_id": "http_call", "parameters": {"url": "http://10.0.0.1/"}})
    done = reenact("simulate", path)
    assert done.code == 1
    assert done.err == ""
    assert "s0: ERR_BLOCKED_HOST: 10.0.0.1 is a private address" in done.out


def test_a_plan_that_is_none_is_told_with_its_place(reenact: Command) -> None:
    (reenact.folder / "plan.json").write_text('{"plan_id": "p", "agent_id": "a", "steps": [{}]}')
    done = reenact("simulate", "plan.json")
    assert done.code == 2
    assert "line 1, column 45" in error_line(done)
    assert reenact("simulate", "nothing.json").code == 2


def test_earlier_runs_are_asked_how_long_it_takes(reenact: Command) -> None:
    path = reenact.plan({"skill_id": "steady", "parameters": {"text": "x"}})
    assert reenact("simulate", path, "--skills", SKILLS, "--json").json["usual_ms"] is None
    assert reenact("run", path, "--skills", SKILLS).code == 0
    assert isinstance(reenact("simulate", path, "--skills", SKILLS, "--json").json["usual_ms"], int)
