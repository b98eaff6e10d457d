"""What is refused before anything is sent: each gate its code, the first no counts, and the record says all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import SkillContext, skill
from reenact.errors import PlanError
from reenact.runtime.gates.supervisor import Proposal
from tests.runtime.running import LOADS_ANY, Bench, outcome_of, plan, step

CALLED: list[str] = []


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLED.clear()


@skill("read", version="1.0.0", tool_class="read", idempotent=True)
def read(ctx: SkillContext, n: int = 0) -> int:
    """Reads."""
    CALLED.append(ctx.step_id)
    return n


@skill("write", version="1.2.0", tool_class="write", side_effects=["file_write"], cost_estimate_cents=10)
def write(ctx: SkillContext, n: int, url: str = "") -> int:
    """Writes, and costs ten cents."""
    CALLED.append(ctx.step_id)
    return n


GOOD = step(write, {"n": 1})
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    # name: (step, context, gate, code)
    "an unknown skill": (step("nobody"), {}, "validate", "ERR_SKILL_NOT_FOUND"),
    "an unknown version": (step(write, {"n": 1}, skill_version="9.9.9"), {}, "validate", "ERR_SKILL_NOT_FOUND"),
    "a missing parameter": (step(write), {}, "validate", "ERR_VALIDATION_FAILED"),
    "a parameter of another type": (step(write, {"n": "one"}), {}, "validate", "ERR_VALIDATION_FAILED"),
    "a parameter too many": (step(write, {"n": 1, "m": 2}), {}, "validate", "ERR_VALIDATION_FAILED"),
    "a reference to a later step": (step(write, {"n": "{{s1.n}}"}), {}, "validate", "ERR_REFERENCE_UNRESOLVED"),
    "a reference to nobody": (step(write, {"n": "{{x.n}}"}), {}, "validate", "ERR_REFERENCE_UNRESOLVED"),
    "a reference to itself": (step(write, {"n": "{{s0}}"}), {}, "validate", "ERR_REFERENCE_UNRESOLVED"),
    "a missing secret": (
        step(write, {"n": 1, "url": {"$secret": "NOT_SET_ANYWHERE"}}), {}, "validate", "ERR_SECRET_UNAVAILABLE",
    ),
    "a skill that is not allowed": (GOOD, {"allowed_skills": ["read"]}, "permission", "ERR_PERMISSION_DENIED"),
    "a denied skill": (GOOD, {"profile": {"denied_skills": ["write"]}}, "permission", "ERR_PERMISSION_DENIED"),
    "a denied version": (GOOD, {"profile": {"denied_skills": ["write@1.2.0"]}}, "permission", "ERR_PERMISSION_DENIED"),
    "a skill that the agent has not": (
        GOOD, {"profile": {"allowed_skills": ["read"]}}, "permission", "ERR_PERMISSION_DENIED",
    ),
    "a side effect that is not allowed": (
        GOOD, {"profile": {"disallowed_side_effects": ["file_write"]}}, "permission", "ERR_PERMISSION_DENIED",
    ),
    "one external call too many": (
        GOOD, {"profile": {"max_external_calls": 0}}, "permission", "ERR_QUOTA_EXCEEDED",
    ),
    "a host that is not allowed": (
        step(write, {"n": 1, "url": "http://evil.example/x"}), {"profile": {"hosts": ["good.example"]}}, "permission",
        "ERR_BLOCKED_HOST",
    ),
    "a host that is no host": (
        step(write, {"n": 1, "url": "http://[half"}), {"profile": {"hosts": ["good.example"]}}, "permission",
        "ERR_BLOCKED_HOST",
    ),
    "a run without money": (GOOD, {"budget_cents": 9}, "budget", "ERR_BUDGET_EXCEEDED"),
    "a step too dear": (GOOD, {"budget": {"per_step_cents": 9}}, "budget", "ERR_BUDGET_EXCEEDED"),
    "a supervisor that is not there": (GOOD, {"supervisor": "tests.runtime.gates.test_refusals:no"}, "supervisor",
                                       "ERR_POLICY_VIOLATION"),
    "a supervisor that fails": (GOOD, {"supervisor": "tests.runtime.gates.test_refusals:broken"}, "supervisor",
                                "ERR_POLICY_VIOLATION"),
    "a supervisor that says something else": (GOOD, {"supervisor": "tests.runtime.gates.test_refusals:vague"},
                                              "supervisor", "ERR_POLICY_VIOLATION"),
}  # fmt: skip


def no(proposal: Proposal) -> bool:
    return False


def broken(proposal: Proposal) -> bool:
    raise RuntimeError("out of order")


def vague(proposal: Proposal) -> Any:
    return "yes, I think"


async def reads_only(proposal: Proposal) -> bool:
    return proposal.risk_level == "READ"


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_has_its_code_and_its_gate_and_reaches_nobody(case: str, tmp_path: Path) -> None:
    refused, context, gate, code = CASES[case]
    bench = Bench(tmp_path, read, write, policy=LOADS_ANY)
    result = bench.run(refused, step(read), **context)
    assert result.status == "failed"
    outcome = outcome_of(result)
    assert (outcome.code, outcome.status, outcome.cost_cents) == (code, "failure", 0)
    assert outcome.details is not None
    assert outcome.details["gate"] == gate
    assert "\n" not in outcome.message
    assert CALLED == []
    (trace,) = bench.traces(result.run_id)
    assert (trace.state, trace.call, trace.attempts) == ("DENIED", None, [])
    bench.check(result)


@pytest.mark.parametrize("case", CASES)
def test_a_refused_step_does_not_stop_a_plan_that_goes_on(case: str, tmp_path: Path) -> None:
    refused, context, _, code = CASES[case]
    bench = Bench(tmp_path, read, write, policy=LOADS_ANY)
    result = bench.run({**refused, "on_error": "continue"}, step(read), **context)
    assert result.outcomes[0].code == code
    assert len(result.outcomes) == 2
    bench.check(result)


def test_the_first_no_counts(tmp_path: Path) -> None:
    """validate → permission → budget → supervisor, each with everything behind it refused as well."""
    bench = Bench(tmp_path, read, write, policy=LOADS_ANY)
    everything = {
        "allowed_skills": ["read"],
        "budget_cents": 1,
        "supervisor": "tests.runtime.gates.test_refusals:no",
    }
    expected = ["ERR_VALIDATION_FAILED", "ERR_PERMISSION_DENIED", "ERR_BUDGET_EXCEEDED", "ERR_POLICY_VIOLATION"]
    contexts = [
        everything,
        everything,
        {key: value for key, value in everything.items() if key != "allowed_skills"},
        {"supervisor": everything["supervisor"]},
    ]
    steps = [step(write), GOOD, GOOD, GOOD]
    codes = [outcome_of(bench.run(one, **context)).code for one, context in zip(steps, contexts, strict=True)]
    assert codes == expected


def test_a_supervisor_function_sees_what_is_asked_and_decides_by_itself(tmp_path: Path) -> None:
    bench = Bench(tmp_path, read, write, policy=LOADS_ANY)
    result = bench.run(
        step(read), {**GOOD, "on_error": "continue"}, supervisor="tests.runtime.gates.test_refusals:reads_only"
    )
    assert [outcome.code for outcome in result.outcomes] == ["OK", "ERR_POLICY_VIOLATION"]
    bench.check(result)


def test_a_plan_that_no_run_could_follow_starts_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path, read, write, policy=LOADS_ANY)
    bad: list[Any] = [
        {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "x y", "skill_id": "read"}]},
        {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "x", "skill_id": "Re ad"}]},
        {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "x", "skill_id": "read"}] * 2},
        {"plan_id": "p", "agent_id": "a", "steps": [], "surprise": 1},
        {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "x", "skill_id": "read", "timeout_ms": 0}]},
        {"plan_id": "", "agent_id": "a", "steps": []},
        plan(supervisor="nowhere:nobody"),
        plan(supervisor="neither"),
    ]
    for document in bad:
        with pytest.raises(PlanError) as refused:
            bench.runtime.run(document)
        assert "\n" not in str(refused.value)
        assert refused.value.exit_code == 2
    assert bench.store.runs() == []


def test_a_plan_file_with_bad_json_is_told_with_line_and_column(tmp_path: Path) -> None:
    bench = Bench(tmp_path, read)
    path = tmp_path / "plan.json"
    path.write_text('{\n  "plan_id": "p",\n  "agent_id" "a"\n}\n', encoding="utf-8")
    with pytest.raises(Exception, match=r"line 3, column \d+") as refused:
        bench.runtime.run(path)
    assert getattr(refused.value, "exit_code", None) == 2
    with pytest.raises(PlanError, match="nowhere"):
        bench.runtime.run(str(tmp_path / "nowhere.json"))


def test_a_plan_without_steps_completes_and_verifies(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    result = bench.run()
    assert (result.status, result.outcomes) == ("completed", [])
    bench.check(result)


def test_dedupe_skips_an_idempotent_call_that_succeeded_and_the_run_completes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, read, write, policy=LOADS_ANY)
    result = bench.run(step(read, {"n": 1}), step(read, {"n": 1}), step(read, {"n": 2}), dedupe=True)
    assert [(outcome.code, outcome.status) for outcome in result.outcomes] == [
        ("OK", "success"),
        ("DENIED_DUPLICATE", "skipped"),
        ("OK", "success"),
    ]
    assert result.status == "completed"
    assert CALLED == ["s0", "s2"]
    bench.check(result)
