"""What a full replay must hold to: the same stop for budget, a real retry, and who it was that differed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from reenact import Registry, RetryPolicy, SkillContext, skill
from reenact.errors import UsageError
from reenact.policy.classify import classify
from reenact.policy.cost import PICODOLLARS_PER_CENT
from reenact.record.document import read_document
from reenact.replay import Runtime
from reenact.replay.compare.render import text_lines
from reenact.replay.result import ReplayResult
from reenact.runtime.listeners import Notice
from reenact.store.checks.verification import verify_run
from reenact.telemetry.metrics import RuntimeMetrics
from reenact.values.clock import FixedClock
from tests.cli.harness import Command
from tests.engines.places import opened, store_at

CALLS: list[str] = []
WORLD: dict[str, Any] = {}


@skill("put", version="1.0.0", tool_class="write", cost_estimate_cents=60, side_effects=["payment"])
def put(ctx: SkillContext, what: str) -> str:
    CALLS.append(f"put {what}")
    ctx.side_effect("payment", "bank.example")
    if WORLD.get("put") == "later":
        raise TimeoutError
    if WORLD.get("put") == "no":
        ctx.http_status(400)
    return what


@skill(
    "get", version="1.0.0", tool_class="read", cost_estimate_cents=50, side_effects=["http_request"],
    stable_fields=["status"], nondeterministic=["at"],
)  # fmt: skip
def get(ctx: SkillContext, what: str = "") -> dict[str, Any]:
    CALLS.append(f"get {what}")
    ctx.side_effect("http_request", "shop.example")
    if WORLD.get("get", 200) != 200:
        ctx.http_status(WORLD["get"])
    return {"status": WORLD.get("status", 200), "at": len(CALLS), "price": WORLD.get("price", 1)}


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    CALLS.clear()
    WORLD.clear()
    yield
    WORLD.clear()


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    clock = FixedClock()
    store = opened(tmp_path / "store.db", clock=clock)
    return Runtime(store, skills=Registry([put, get]), clock=clock)


def plan(*steps: str, budget: int | None = None, **context: Any) -> dict[str, Any]:
    """Steps by name: `put-1` puts, `get-1` gets."""
    made = [
        {"step_id": name, "skill_id": name[:3], "parameters": {"what": name}, "retry": {"max_retries": 0}}
        for name in steps
    ]
    return {"plan_id": "p", "agent_id": "a", "steps": made, "context": {"budget_cents": budget, **context}}


def first(runtime: Runtime, *steps: str, **options: Any) -> str:
    run_id = runtime.run(plan(*steps, **options)).run_id
    CALLS.clear()
    return run_id


def full(runtime: Runtime, run_id: str, **options: Any) -> ReplayResult:
    result = runtime.replay(run_id, mode="full_replay", **options)
    assert verify_run(runtime.store.url, result.run_id).exit_code == 0
    return result


# -- budgets ---------------------------------------------------------------------------------------------------------


def test_a_skipped_write_uses_up_the_budget_as_it_did(runtime: Runtime) -> None:
    run_id = first(runtime, "put-1", "get-1", budget=100)
    result = full(runtime, run_id)

    assert CALLS == [], "60 are spent, and 50 are more than is left"
    assert result.verdict == "matched"
    assert result.get_step("get-1").final_code == "ERR_BUDGET_EXCEEDED"
    skipped = result.get_step("put-1").outcome
    assert (skipped.cost_cents, [effect.type for effect in skipped.side_effects]) == (60, ["payment"])
    assert skipped.details is not None
    assert skipped.details["served_from"]


def test_what_is_skipped_is_not_spent_beyond_the_replay(runtime: Runtime) -> None:
    run_id = first(runtime, "put-1", "get-1", budget=200)
    today = runtime.clock.timestamp()[:10]
    before = runtime.store.spent(today, "a")
    full(runtime, run_id)
    after = runtime.store.spent(today, "a")

    assert CALLS == ["get get-1"]
    assert sum(after.values()) - sum(before.values()) == 50 * PICODOLLARS_PER_CENT


# -- a failed run, retried -------------------------------------------------------------------------------------------


def test_a_failed_run_is_really_retried(runtime: Runtime) -> None:
    WORLD["put"] = "no"
    run_id = first(runtime, "get-1", "put-1", "put-2")
    WORLD.clear()
    result = full(runtime, run_id, retry_failed=True)

    assert CALLS == ["put put-1", "put put-2"], "what succeeded is not made again, the rest is"
    assert (result.status, result.verdict, result.exit_code) == ("completed", "world_differed", 0)


def test_a_retry_that_fails_again_says_so(runtime: Runtime) -> None:
    WORLD["put"] = "no"
    run_id = first(runtime, "put-1")
    result = full(runtime, run_id, retry_failed=True)

    assert (CALLS, result.status, result.verdict, result.exit_code) == (["put put-1"], "failed", "matched", 1)


def test_a_write_that_may_have_been_done_is_retried_by_its_name_only(runtime: Runtime) -> None:
    @skill("put", version="2.0.0", tool_class="write", honours_key=True)
    def put_by_key(what: str) -> str:
        CALLS.append(f"put {what}")
        if WORLD.get("put") == "later":
            raise TimeoutError
        return what

    runtime.registry.register(put_by_key)
    WORLD["put"] = "later"
    run_id = first(runtime, "put-1")
    WORLD.clear()
    with pytest.raises(UsageError, match="may have been done although it failed"):
        full(runtime, run_id, retry_failed=True)
    assert CALLS == []
    assert full(runtime, run_id, retry_failed=True, execute=["put-1"]).exit_code == 0
    assert CALLS == ["put put-1"]


def test_nothing_is_retried_of_a_run_in_which_nothing_failed(runtime: Runtime) -> None:
    run_id = first(runtime, "get-1")
    with pytest.raises(UsageError, match="nothing to retry"):
        full(runtime, run_id, retry_failed=True)
    with pytest.raises(UsageError, match="for full_replay"):
        runtime.replay(run_id, retry_failed=True)


def test_the_command_retries_a_failed_run(tmp_path: Path) -> None:
    """At the user's door: the file appears between the two runs."""
    shell = Command(tmp_path)
    steps = [{"step_id": "read", "skill_id": "file_read", "parameters": {"path": "later.txt"}}]
    workspace = tmp_path / "w"
    workspace.mkdir()
    context = {"workspace": str(workspace)}
    (tmp_path / "p.json").write_text(json.dumps({"plan_id": "p", "agent_id": "a", "steps": steps, "context": context}))
    assert shell("run", "p.json").code == 1
    (workspace / "later.txt").write_text("now")
    told = shell("replay", "last", "--retry-failed", "--json")
    assert (told.code, told.json["verdict"], told.json["replay_mode"]) == (0, "world_differed", "full_replay")
    assert told.json["steps"][0]["how"] == "live"
    assert told.json["trace_id"] == told.json["run_id"]
    assert told.json["behavior_match"]["status"] is False
    assert "world_differed" in shell("show", "last").out


# -- verdicts --------------------------------------------------------------------------------------------------------


def test_nothing_matches_where_nothing_was_compared(runtime: Runtime) -> None:
    run_id = first(runtime, "put-1")
    result = full(runtime, run_id)

    assert (CALLS, result.verdict, result.exit_code) == ([], "not_compared", 1)
    assert "nothing was compared" in "\n".join(text_lines(result))
    empty = runtime.run({"plan_id": "p", "agent_id": "a", "steps": []}).run_id
    assert [runtime.replay(empty, mode=mode).verdict for mode in ("mock_replay", "full_replay")] == ["not_compared"] * 2


def test_another_answer_is_the_world_and_another_decision_is_the_runtime(runtime: Runtime) -> None:
    WORLD["get"] = 404
    run_id = first(runtime, "get-1", "get-2", on_error="continue")
    WORLD["get"] = 500
    other_world = full(runtime, run_id)
    assert (other_world.verdict, other_world.exit_code) == ("world_differed", 5)
    assert other_world.comparison is not None
    assert {step.cause for step in other_world.comparison.steps} == {"world"}

    WORLD["get"] = 404
    assert full(runtime, run_id).verdict == "matched"
    with patch(
        "reenact.runtime.call.dispatch.classify", lambda facts: "ERR_UNKNOWN" if facts.http_status else classify(facts)
    ):
        other_runtime = full(runtime, run_id)
    assert (other_runtime.verdict, other_runtime.exit_code) == ("differed", 1)


def test_a_stop_that_follows_from_the_world_is_the_worlds(runtime: Runtime) -> None:
    WORLD["get"] = 404
    run_id = first(runtime, "get-1", "get-2")
    WORLD.clear()
    result = full(runtime, run_id)
    assert result.verdict == "world_differed", "the second is made since the first succeeded"
    assert result.comparison is not None
    assert [step.cause for step in result.comparison.steps] == ["world", "world"]


def test_a_promise_of_a_skill_is_compared_and_what_it_excepts_is_not(runtime: Runtime) -> None:
    run_id = first(runtime, "get-1")
    WORLD["price"] = 2
    same = full(runtime, run_id)
    assert (same.verdict, same.behavior_match["stable_fields"]) == ("matched", True)
    assert [item.pointers for item in same.content] == [("/price",)], "not /at, which differs each time"

    WORLD["status"] = 201
    broken = full(runtime, run_id)
    assert (broken.verdict, broken.behavior_match["stable_fields"]) == ("differed", False)
    assert broken.divergence is not None
    assert (broken.divergence.difference.aspect, broken.divergence.difference.when) == ("stable_fields", "status")


def test_a_mock_replay_is_served_the_output_and_compares_no_promise(runtime: Runtime) -> None:
    assert "stable_fields" not in runtime.replay(first(runtime, "get-1")).behavior_match


# -- what is told of it ----------------------------------------------------------------------------------------------


def test_metrics_of_the_process_count_replays(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    told: list[Notice] = []
    runtime = Runtime(
        store_at(tmp_path / "s.db"), skills=Registry([put, get]), listeners=[RuntimeMetrics(registry), told.append]
    )
    run_id = runtime.run(plan("get-1")).run_id
    runtime.replay(run_id)
    WORLD["get"] = 404
    runtime.replay(run_id, mode="full_replay")
    found = generate_latest(registry).decode()

    assert 'reenact_replays_total{mode="mock_replay",verdict="matched"} 1.0' in found
    assert 'reenact_replays_total{mode="full_replay",verdict="world_differed"} 1.0' in found
    assert 'aos_replay_behavior_match_total{aspect="retry_count"} 2.0' in found
    assert 'aos_replay_behavior_mismatch_total{aspect="error_code"} 1.0' in found
    assert 'reenact_runs_total{status="completed"} 1.0' in found, "replays do not count as runs"
    assert [notice.verdict for notice in told if notice.kind == "replay_compared"] == ["matched", "world_differed"]


def test_the_document_of_a_replay_says_how_it_compared(runtime: Runtime) -> None:
    run_id = first(runtime, "get-1")
    result = full(runtime, run_id)
    document = read_document(runtime.store, result.run_id)

    assert document["replay"] == {
        "trace_id": result.run_id, "replay_mode": "full_replay", "original_run_id": run_id,
        "behavior_match": result.behavior_match, "verdict": "matched",
    }  # fmt: skip
    assert read_document(runtime.store, run_id)["replay"] is None


def test_every_outcome_has_a_span(runtime: Runtime) -> None:
    run_id = first(runtime, "get-1", "put-1", budget=60)
    again = full(runtime, run_id)
    for result in (runtime.resume(run_id), again):
        for step in result:
            observed = step.outcome.observability
            assert observed.span_id == observed.trace_id.replace("-", "")[16:]


def test_a_policy_may_be_given_whole_where_it_may_be_given_in_part() -> None:
    @skill("s", version="1.0.0", retry=RetryPolicy(max_retries=1))
    def declared() -> None: ...

    assert declared.metadata.retry is not None
    assert declared.metadata.retry["max_retries"] == 1
