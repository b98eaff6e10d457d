"""What is said of a session whose plan names arguments that were erased since; and of one of an earlier release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import EvidenceError, PlanError
from reenact.record import export
from reenact.record.bundle import load_bundle
from reenact.record.erase import erase, plan_repeats
from reenact.record.export import export_run
from reenact.replay import replay
from reenact.store.checks.verification import verify_run
from reenact.verify.verifier import verify_bundle
from tests.engines.places import store_at

VECTORS = Path(__file__).parents[3] / "test_vectors" / "bundles"


@skill("look", version="1.0.0", tool_class="read")
async def look(who: str, number: int) -> str:
    return f"{number}: {who}"


@skill("put", version="1.0.0")
async def put(who: str) -> str:
    return who


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(store_at(tmp_path / "store.db"), skills=[look, put])


def talked(runtime: Runtime) -> str:
    with runtime.session() as session:
        for number in range(3):
            assert session.call("look", {"who": f"Jane {number}", "number": number}).ok
        assert session.call("put", {"who": "Elm Street"}, idempotency_key="order-42").ok
    return session.run_id


def exported_plan(runtime: Runtime, run_id: str, folder: Path) -> list[dict[str, object]]:
    export_run(runtime.store.url, run_id, folder)
    assert verify_bundle(folder).exit_code == 0
    steps: list[dict[str, object]] = json.loads((folder / "plan.json").read_bytes())["steps"]
    return steps


def test_an_exported_plan_is_whole_and_runs(runtime: Runtime, tmp_path: Path) -> None:
    steps = exported_plan(runtime, talked(runtime), tmp_path / "bundle")
    assert [step["parameters"] for step in steps[1:]] == [
        {"who": "Jane 1", "number": 1},
        {"who": "Jane 2", "number": 2},
        {"who": "Elm Street"},
    ]
    assert steps[3]["idempotency_key"] == "order-42"
    again = runtime.run(tmp_path / "bundle" / "plan.json")
    assert [outcome.ok for outcome in again.outcomes] == [True] * 4


def test_a_call_that_was_erased_is_served_and_never_made_again(runtime: Runtime, tmp_path: Path) -> None:
    run_id = talked(runtime)
    assert erase(runtime.store, run_id, "c2", who="ann", reason="asked for") == 3
    assert erase(runtime.store, run_id, "c4", who="ann", reason="asked for") == 4
    assert not plan_repeats(runtime.store, run_id)
    assert verify_run(runtime.store.url, run_id).exit_code == 0
    assert runtime.replay(run_id).verdict == "matched"
    steps = exported_plan(runtime, run_id, tmp_path / "bundle")
    assert [set(step["parameters"]) for step in steps] == [  # type: ignore[call-overload]
        {"who", "number"}, {"$erased"}, {"who", "number"}, {"$erased"},
    ]  # fmt: skip
    assert "idempotency_key" not in steps[3]
    assert replay(runtime, str(tmp_path / "bundle")).verdict == "matched"
    with pytest.raises(EvidenceError, match=r"arguments of step c2 .* were erased; .* cannot be executed again"):
        runtime.replay(run_id, mode="full_replay")
    with pytest.raises(PlanError, match=r"plan\.json: the arguments of step c2 were erased"):
        runtime.run(tmp_path / "bundle" / "plan.json")


def test_a_plan_that_would_be_too_large_whole_is_exported_as_it_is_recorded(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = talked(runtime)
    monkeypatch.setattr(export, "MAX_FILE_BYTES", 200)
    steps = exported_plan(runtime, run_id, tmp_path / "bundle")
    assert {key for step in steps for key in step["parameters"]} == {"$commit"}  # type: ignore[attr-defined]
    assert replay(runtime, str(tmp_path / "bundle")).verdict == "matched"
    with pytest.raises(PlanError, match="step c1 names its arguments and does not hold them"):
        runtime.run(tmp_path / "bundle" / "plan.json")


def test_sessions_whose_plans_repeat_their_calls_are_read_alike() -> None:
    named, repeated = load_bundle(VECTORS / "session"), load_bundle(VECTORS / "session_repeated")
    assert named.document == repeated.document
    assert named.seal.plan_hash != repeated.seal.plan_hash
    assert plan_repeats(repeated.store, repeated.run_id)
