"""What a plan would do, told before anything runs; and what then happens is what was told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, Runtime, SkillContext, skill
from reenact.contracts.plan import plan_from_document
from reenact.errors import SkillError
from reenact.replay.forecast.simulation import Outside, Problem, Simulation, simulate
from reenact.replay.forecast.usual_times import usual_times
from reenact.runtime.plans.pinning import PinnedPlan, pin, pin_document
from reenact.skills.registry import default_registry
from reenact.values.clock import SystemClock
from tests.engines.places import store_at
from tests.runtime.running import plan, step

CENT = 10**10


@skill("look", version="1.0.0", tool_class="read", cost_estimate_cents=2, retry={"max_retries": 2}, timeout_ms=1000)
def look(text: str = "") -> dict[str, str]:
    return {"text": text}


@skill("pay", version="1.0.0", tool_class="write", cost_estimate_cents=5, side_effects=["card_charged"])
def pay(amount: int) -> int:
    return amount


@skill("keyed", version="1.0.0", tool_class="write", honours_key=True, in_doubt="hold")
def keyed() -> None: ...


@skill("undeclared", version="1.0.0")
def undeclared() -> None: ...


@skill(
    "flaky", version="1.0.0", tool_class="read", cost_estimate_cents=2, retry={"max_retries": 2, "backoff_base_ms": 0}
)
def flaky(ctx: SkillContext) -> None:
    raise SkillError.of("ERR_TIMEOUT", "again")


@skill("same", version="1.0.0", tool_class="read", idempotent=True)
def same(text: str) -> str:
    return text + "!"


CALLS: list[str] = []


@skill("noted", version="1.0.0", tool_class="read")
def noted() -> None:
    CALLS.append("noted")


def registry() -> Registry:
    found = default_registry()
    for each in (look, pay, keyed, undeclared, flaky, same, noted):
        found.register(each)
    return found


def told(*steps: dict[str, Any], outside: Outside | None = None, **context: Any) -> Simulation:
    skills = registry()
    return simulate(pin_document(plan(*steps, **context), skills, SystemClock()), skills, outside)


def only_problem(answer: Simulation) -> Problem:
    (found,) = answer.problems
    assert not answer.feasible
    return found


def ran(tmp_path: Path, *steps: dict[str, Any], **context: Any) -> list[str]:
    """The codes of the same plan when it is really run."""
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=registry())
    return [outcome.code for outcome in runtime.run(plan(*steps, **context)).outcomes]


def test_a_plan_that_can_be_run_is_feasible_and_adds_up() -> None:
    answer = told(step(look), step(look, {"text": "{{s0.text}}"}), step(pay, {"amount": 5}), budget_cents=100)
    assert answer.feasible
    assert answer.problems == ()
    assert [int(each.expected_exact) // CENT for each in answer.steps] == [2, 2, 5]
    assert (answer.expected_cents, answer.worst_cents) == (9, 17), "each look three times, the payment once"
    assert [each.attempts_at_most for each in answer.steps] == [3, 3, 4]
    waits = 100 + 200
    assert answer.steps[0].worst_ms == 3 * 1000 + waits
    assert answer.worst_ms == sum(each.worst_ms for each in answer.steps)
    assert (answer.budget_cents, answer.budget_stops_at, answer.budget_may_stop_at) == (100, None, None)
    assert answer.usual_ms is None, "nobody has seen it run"


@pytest.mark.parametrize(
    ("steps", "context", "code"),
    [
        ([step("nobody")], {}, "ERR_SKILL_NOT_FOUND"),
        ([step("look", skill_version="9.9.9")], {}, "ERR_SKILL_NOT_FOUND"),
        ([step(pay, {"amount": "much"})], {}, "ERR_VALIDATION_FAILED"),
        ([step(pay, {})], {}, "ERR_VALIDATION_FAILED"),
        ([step(pay, {"amount": "{{later}}"})], {}, "ERR_REFERENCE_UNRESOLVED"),
        ([step(look, {"text": {"$secret": "NOT_SET_ANYWHERE"}})], {}, "ERR_SECRET_UNAVAILABLE"),
        ([step(look)], {"allowed_skills": ["pay"]}, "ERR_PERMISSION_DENIED"),
        (
            [step(pay, {"amount": 1})],
            {"profile": {"disallowed_side_effects": ["card_charged"]}},
            "ERR_PERMISSION_DENIED",
        ),
        ([step("http_call", {"url": "http://127.0.0.1:1/"})], {}, "ERR_BLOCKED_HOST"),
        ([step("http_call", {"url": "http://[::ffff:10.0.0.1]/"})], {}, "ERR_BLOCKED_HOST"),
        ([step("webhook_send", {"url": "http://169.254.169.254/", "payload": {}})], {}, "ERR_BLOCKED_HOST"),
        ([step("shell", {"argv": ["ls"]})], {}, "ERR_SKILL_DISABLED"),
        ([step("file_read", {"path": "x"})], {}, "ERR_SKILL_DISABLED"),
        ([step("llm_invoke", {"prompt": "x", "model": "nobody-knows-it"})], {}, "ERR_LLM_INVALID_MODEL"),
        ([step(pay, {"amount": 1})], {"budget_cents": 4}, "ERR_BUDGET_EXCEEDED"),
        ([step(look), step(pay, {"amount": 1})], {"budget_cents": 6}, "ERR_BUDGET_EXCEEDED"),
        ([step(pay, {"amount": 1})], {"budget": {"per_step_cents": 4}}, "ERR_BUDGET_EXCEEDED"),
    ],
)
def test_what_is_told_is_what_happens(
    tmp_path: Path, steps: list[dict[str, Any]], context: dict[str, Any], code: str
) -> None:
    answer = told(*steps, outside=Outside(has_secret=lambda _: False), **context)
    assert only_problem(answer).code == code
    assert ran(tmp_path, *steps, **context)[-1] == code


def test_a_problem_behind_a_step_that_goes_on_after_errors_does_not_make_a_plan_infeasible(tmp_path: Path) -> None:
    steps = [step("nobody", on_error="continue"), step(look)]
    answer = told(*steps)
    assert answer.feasible
    assert [problem.step_id for problem in answer.problems] == ["s0"]
    assert ran(tmp_path, *steps) == ["ERR_SKILL_NOT_FOUND", "OK"]


def test_every_mistake_is_told_also_behind_one_that_ends_the_run() -> None:
    answer = told(
        step("nobody"),
        step(pay, {"amount": "much"}),
        step("http_call", {"url": "http://10.0.0.1/"}),
        step(pay, {"amount": "{{s1}}"}),
        budget_cents=4,
    )
    assert [(problem.step_id, problem.kind) for problem in answer.problems] == [
        ("s0", "skill"),
        ("s1", "parameters"),
        ("s2", "host"),
        ("s3", "budget"),
    ]


def test_a_step_that_is_too_dear_is_told_where_it_may_not_go_as_well() -> None:
    answer = told(step("llm_invoke", {"prompt": "x", "model": "nobody", "base_url": "http://127.0.0.1:1/"}))
    assert [problem.kind for problem in answer.problems] == ["host", "price"]


def test_a_step_that_needs_what_a_failed_one_would_have_returned_fails_too(tmp_path: Path) -> None:
    steps = [step("nobody", on_error="continue"), step(look, {"text": "{{s0.text}}"})]
    answer = told(*steps)
    assert not answer.feasible
    assert [problem.code for problem in answer.problems] == ran(tmp_path, *steps)
    mistaken = [steps[0], step(pay, {"amount": "about {{s0.text}}"})]
    assert told(*mistaken).problems[1].kind == "parameters", "its own mistake comes first"


def test_a_call_that_is_made_twice_is_left_out_and_costs_nothing(tmp_path: Path) -> None:
    steps = [step(same, {"text": "x"}), step(same, {"text": "{{s0}}"}), step(same, {"text": "x"})]
    answer = told(*steps, dedupe=True)
    assert answer.feasible
    assert [(problem.step_id, problem.kind, problem.certain) for problem in answer.problems] == [
        ("s2", "duplicate", False)
    ]
    assert "step s0 makes the same call" in answer.problems[0].message
    assert [each.attempts_at_most for each in answer.steps] == [4, 4, 0]
    assert ran(tmp_path, *steps, dedupe=True)[2] == "DENIED_DUPLICATE"


def test_only_failures_that_the_policy_retries_make_the_worst_case() -> None:
    timeouts_only: dict[str, Any] = {"retry": {"max_retries": 3, "retryable_codes": ["ERR_TIMEOUT"]}}
    answer = told(
        step(look, **timeouts_only),
        step(pay, {"amount": 1}, **timeouts_only),
        step(look, retry={"retryable_codes": []}),
    )
    assert [each.attempts_at_most for each in answer.steps] == [4, 1, 1], "a payment that was sent is not sent again"


def test_the_worst_case_is_told_past_the_budget_that_would_stop_it() -> None:
    answer = told(step(look), step(look), budget_cents=7)
    assert (answer.worst_cents, answer.budget_may_stop_at) == (12, "s1")


def test_a_reference_inside_a_host_is_not_held_against_a_step() -> None:
    steps = [step(look), step("http_call", {"url": "https://{{s0.text}}/x"})]
    assert told(*steps, profile={"hosts": ["example.com"]}).feasible


def test_nothing_is_called_and_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REENACT_STORE", store_at(tmp_path / "store.db"))
    CALLS.clear()
    assert told(step(noted), step("http_call", {"url": "https://example.com"})).feasible
    assert (CALLS, list(tmp_path.iterdir())) == ([], [])


def test_what_stands_behind_a_certain_end_is_not_reached_and_costs_nothing() -> None:
    answer = told(step(look), step("nobody"), step(pay, {"amount": 1}))
    assert [each.reached for each in answer.steps] == [True, True, False]
    assert answer.expected_cents == 2


def test_budgets_stop_where_retries_take_the_money(tmp_path: Path) -> None:
    steps = [step(flaky, on_error="continue"), step(look)]
    answer = told(*steps, budget_cents=7)
    assert answer.feasible
    assert (answer.budget_stops_at, answer.budget_may_stop_at) == (None, "s1")
    assert ran(tmp_path, *steps, budget_cents=7) == ["ERR_TIMEOUT", "ERR_BUDGET_EXCEEDED"]
    assert told(*steps, budget_cents=5).budget_may_stop_at == "s0"
    assert ran(tmp_path / "less", *steps, budget_cents=5)[0] == "ERR_BUDGET_EXCEEDED"
    assert told(*steps, budget_cents=8).budget_may_stop_at == "s1", "two retries of the look may come as well"
    assert told(*steps, budget_cents=12).budget_may_stop_at is None, "what is reached exactly passes"


def test_a_soft_budget_warns_nobody_off() -> None:
    assert told(step(pay, {"amount": 1}), budget_cents=1, budget={"mode": "soft"}).feasible


def test_what_was_spent_today_counts() -> None:
    step_, budget = step(pay, {"amount": 1}), {"per_day_cents": 9}
    assert told(step_, budget=budget).feasible
    answer = told(step_, outside=Outside(day_spent={"": 5 * CENT}), budget=budget)
    assert only_problem(answer).message == "5 cents needed, 4 left in the budget of the day"
    assert told(step(look), budget={"per_day_cents": 5}).budget_may_stop_at == "s0", "retries are of this day too"


def test_models_are_priced_by_what_they_may_answer() -> None:
    answer = told(step("llm_invoke", {"prompt": "x" * 300, "model": "claude-sonnet-4-20250514", "max_tokens": 1000}))
    assert int(answer.expected_exact) == (100 + 8) * 3_000_000 + 1000 * 15_000_000
    free = told(step("llm_invoke", {"prompt": "x"}))
    assert (free.feasible, free.expected_exact) == (True, "0"), "the stub is asked where no model is named"


def test_a_prompt_that_depends_on_another_step_may_cost_more() -> None:
    answer = told(step(look), step("llm_invoke", {"prompt": "sum up {{s0.text}}"}))
    assert [(risk.step_id, risk.kind) for risk in answer.risks] == [("s1", "cost")]


def test_writes_are_told_with_what_may_go_wrong() -> None:
    answer = told(step(pay, {"amount": 1}), step(keyed), step(undeclared), step(look))
    kinds = {
        each.step_id: [risk.kind for risk in answer.risks if risk.step_id == each.step_id] for each in answer.steps
    }
    assert kinds == {
        "s0": ["writes", "in_doubt", "no_key", "not_retried"],
        "s1": ["writes", "in_doubt"],
        "s2": ["high_risk", "in_doubt", "no_key", "not_retried"],
        "s3": [],
    }
    assert [each.risk_level for each in answer.steps] == ["WRITE", "WRITE", "HIGH_RISK", "READ"]
    assert [each.in_doubt for each in answer.steps] == ["redispatch", "hold", "redispatch", "redispatch"]
    assert "card_charged" in answer.risks[0].message
    with_key = told(step(pay, {"amount": 1}, idempotency_key="order-1"))
    assert "no_key" not in [risk.kind for risk in with_key.risks]


def test_persons_who_will_be_asked_are_told() -> None:
    steps = [step(look), step(pay, {"amount": 1}), step(undeclared)]
    assert told(*steps, supervisor="ask").asks_persons_at == ("s1", "s2")
    assert told(*steps).asks_persons_at == ()


def test_a_supervisor_that_is_not_there_is_a_problem_of_the_plan() -> None:
    loading = Outside(loads_supervisor=True)
    found = only_problem(told(step(look), outside=loading, supervisor="no_such_module:f"))
    assert told(step(look), supervisor="no_such_module:f").feasible  # it is not even looked for
    assert (found.step_id, found.kind) == (None, "supervisor")


def test_a_reference_to_what_a_skill_does_not_declare_is_a_risk() -> None:
    answer = told(step("http_call", {"url": "https://example.com"}), step(look, {"text": "{{s0.content}}"}))
    assert answer.feasible
    assert [risk.kind for risk in answer.risks] == ["reference"]
    fine = told(step("http_call", {"url": "https://example.com"}), step(look, {"text": "{{s0.body.items.0.name}}"}))
    assert fine.risks == ()


def test_a_changed_definition_is_told_and_not_fatal() -> None:
    skills = registry()
    document = pin(plan(step(look)), skills, SystemClock())
    document["context"]["pins"]["skills"]["look@1.0.0"] = "0" * 64  # type: ignore[index]
    answer = simulate(PinnedPlan(plan_from_document(document)[0], document), skills)
    assert answer.feasible
    assert [problem.kind for problem in answer.problems] == ["definition"]


def test_names_are_not_resolved_and_allowed_hosts_pass() -> None:
    for url, hosts in (("https://inside.example.com/", []), ("http://127.0.0.1:81/", ["127.0.0.1:81"])):
        assert told(step("http_call", {"url": url}), allow_hosts=hosts).feasible
    mail = {"to": ["a@b.c"], "subject": "s", "body": "b", "sender": "a@b.c", "smtp_host": "localhost"}
    assert only_problem(told(step("email_send", mail))).kind == "host"
    assert told(step("email_send", mail), allow_hosts=["localhost:587"]).feasible


def test_external_calls_are_counted_against_the_profile() -> None:
    steps = [step("http_call", {"url": "https://example.com"}) for _ in range(3)]
    answer = told(*steps, profile={"max_external_calls": 2})
    assert (only_problem(answer).step_id, only_problem(answer).code) == ("s2", "ERR_QUOTA_EXCEEDED")


def test_what_only_reads_is_not_counted_among_them() -> None:
    steps = [step(look), step("http_call", {"url": "https://example.com"}), step(look), step(pay, {"amount": 1})]
    assert told(*steps, profile={"max_external_calls": 2}).feasible
    assert only_problem(told(*steps, profile={"max_external_calls": 1})).step_id == "s3"


def test_earlier_runs_say_how_long_it_usually_takes(tmp_path: Path) -> None:
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=registry())
    for _ in range(3):
        runtime.run(plan(step(look), step(pay, {"amount": 1})))
    times = usual_times(runtime.store, ["look@1.0.0", "pay@1.0.0", "keyed@1.0.0"])
    assert set(times) == {"look@1.0.0", "pay@1.0.0"}
    answer = told(step(look), step(look), outside=Outside(usual_ms={"look@1.0.0": 250}))
    assert answer.usual_ms == 500
    assert told(step(look), step(keyed), outside=Outside(usual_ms={"look@1.0.0": 250})).usual_ms is None
