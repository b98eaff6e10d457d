"""A candidate decides beside a run, recorded or live: both sides are told, and nothing is executed."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import SkillDeclarationError, UsageError
from reenact.record.recording import load_recording
from reenact.replay.compare.counterfactual import Counterfactual, as_document, markdown, text_lines
from reenact.replay.shadow.candidate import Wanted, candidate_of
from reenact.replay.shadow.live import Shadow
from reenact.replay.shadow.shadow import shadow
from reenact.runtime.effects.coroutines import run_sync
from tests.cli.harness import Command, error_line
from tests.engines.places import store_at

CALLED: list[str] = []


@skill("price", version="1.0.0", tool_class="read", cost_estimate_cents=2)
def price(item: str) -> dict[str, int]:
    """What an item costs."""
    CALLED.append(f"price {item}")
    return {"cents": 450}


@skill("buy", version="1.0.0", tool_class="write", cost_estimate_cents=3, side_effects=["purchase"])
def buy(cents: int) -> str:
    """Buys it."""
    CALLED.append(f"buy {cents}")
    return "bought"


NEXT_VERSION = '''
from reenact import skill


@skill("price", version="1.0.0", tool_class="read", cost_estimate_cents=2)
def price(item: str) -> dict[str, int]:
    """What an item costs."""
    raise AssertionError("nothing is executed")


@skill("buy", version="1.1.0", tool_class="write", cost_estimate_cents=9, side_effects=["purchase"])
def buy(cents: int) -> str:
    """Buys it."""
    raise AssertionError("nothing is executed")
'''

PLAN: dict[str, Any] = {
    "plan_id": "shopping",
    "agent_id": "buyer",
    "steps": [
        {"step_id": "look", "skill_id": "price", "parameters": {"item": "tea"}},
        {"step_id": "take", "skill_id": "buy", "parameters": {"cents": "{{look.cents}}"}},
        {"step_id": "tell", "skill_id": "llm_invoke", "parameters": {"prompt": "I bought tea."}},
    ],
    "context": {"budget_cents": 20, "policy_version": "v1.2.3"},
}


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    CALLED.clear()
    return Runtime(store_at(tmp_path / "store.db"), skills=[price, buy])


def beside(runtime: Runtime, run_id: str, *files: Path, **more: Any) -> Counterfactual:
    recording = load_recording(runtime.store, run_id)
    before = list(CALLED)
    found = run_sync(shadow(recording, candidate_of(recording, runtime.registry.freeze(), Wanted(files, **more))))
    assert before == CALLED, "nothing is executed"
    assert [row.run_id for row in runtime.store.runs()] == [run_id], "and nothing recorded"
    return found


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    path.chmod(0o600)
    return path


def test_a_stricter_policy_stops_where_it_says(runtime: Runtime, tmp_path: Path) -> None:
    run_id = runtime.run(PLAN).run_id
    found = beside(runtime, run_id, written(tmp_path, "p.json", {"budget_cents": 4, "policy_version": "v1.2.4"}))
    document = as_document(found)
    assert (document["production_policy"], document["shadow_policy"]) == ("v1.2.3", "v1.2.4")
    assert document["counterfactual"] == {
        "production_tool_calls": 3,
        "shadow_tool_calls": 1,
        "production_success": True,
        "shadow_success": False,
        "step_utility_delta": -0.3,
    }
    assert document["parts_at"] is not None
    assert found.parts_at is not None
    assert found.parts_at.step_id == "take"
    assert [(row.step_id, row.candidate and row.candidate.code) for row in found.rows] == [
        ("look", "OK"),
        ("take", "ERR_BUDGET_EXCEEDED"),
        ("tell", None),
    ]
    assert "| take | buy@1.0.0 OK $0.03 +0.2 |" in "\n".join(markdown(found))


def test_a_host_policy_refuses_a_call_or_all_of_it(runtime: Runtime, tmp_path: Path) -> None:
    run_id = runtime.run(PLAN).run_id
    denied = beside(runtime, run_id, written(tmp_path, "a.toml", 'denied_skills = ["buy"]\n'))
    assert denied.parts_at is not None
    assert denied.candidate.calls["take"].code == "ERR_PERMISSION_DENIED"
    whole = beside(runtime, run_id, written(tmp_path, "b.toml", 'agents = ["nobody"]\n'))
    assert whole.refused is not None
    assert (whole.same, whole.candidate.made) == (False, 0)


def test_a_person_would_be_asked(runtime: Runtime, tmp_path: Path) -> None:
    run_id = runtime.run(PLAN).run_id
    found = beside(runtime, run_id, written(tmp_path, "ask.json", {"supervisor": "ask"}))
    assert found.parts_at is not None
    assert (found.parts_at.step_id, found.parts_at.differs_in) == ("take", ("asks_person",))


def test_another_version_of_a_skill_is_priced_and_its_result_assumed(runtime: Runtime, tmp_path: Path) -> None:
    run_id = runtime.run(PLAN).run_id
    found = beside(runtime, run_id, written(tmp_path, "next_version.py", NEXT_VERSION))
    take = found.candidate.calls["take"]
    assert (take.tool, take.basis, int(take.cost_exact)) == ("buy@1.1.0", "assumed", 9 * 10**10)
    count = sum(call.basis == "assumed" for call in found.candidate.calls.values())
    document: Any = as_document(found)
    assert (document["production"]["assumed"], document["candidate"]["assumed"]) == (0, count)
    ours, theirs = list(text_lines(found))[1:3]
    assert "assumed" not in ours
    assert theirs.endswith(f"; {count} assumed"), "what the whole comes to rests on them"
    assert f"| assumed, as nobody knows the result | 0 | {count} |" in list(markdown(found))
    assert found.candidate.calls["look"].basis == "recorded"
    changed = NEXT_VERSION.replace('version="1.1.0"', 'version="1.0.0"')
    with pytest.raises(SkillDeclarationError, match="give one another version"):
        beside(runtime, run_id, written(tmp_path, "same_version.py", changed))


def test_another_plan_model_prompt_or_output(runtime: Runtime, tmp_path: Path) -> None:
    run_id = runtime.run(PLAN).run_id
    shorter = beside(runtime, run_id, written(tmp_path, "plan.json", {**PLAN, "steps": PLAN["steps"][:1]}))
    assert (shorter.candidate.made, shorter.candidate.status) == (1, "completed")
    prices = written(
        tmp_path, "prices.json", {"prices": {"models": {"big": {"input": "5000000", "output": "25000000"}}}}
    )
    dearer = beside(runtime, run_id, prices, model="big")
    assert dearer.candidate.calls["tell"].code == "OK_LLM_INVOKE"
    assert dearer.candidate.cost_exact > dearer.production.cost_exact
    prompted = beside(runtime, run_id, sets={"steps.tell.parameters.prompt": "Briefly: I bought tea."})
    assert prompted.parts_at is not None
    assert prompted.parts_at.differs_in == ("parameters",)
    output = beside(runtime, run_id, sets={"outputs.look.cents": 900})
    assert output.parts_at is not None
    assert output.parts_at.step_id == "take"
    with pytest.raises(UsageError, match="leave out what else"):
        beside(runtime, run_id, tmp_path / "plan.json", sets={"context.budget_cents": 1})


def test_what_changes_nothing_is_decided_alike(runtime: Runtime) -> None:
    assert beside(runtime, runtime.run(PLAN).run_id, sets={"context.budget_cents": 19}).same


def test_a_session_has_its_shadow_too(runtime: Runtime, tmp_path: Path) -> None:
    with runtime.session(goal="tea", context={"budget_cents": 20}) as session:
        session.call("price", {"item": "tea"})
        session.call("buy", {"cents": 450})
    found = beside(runtime, session.run_id, written(tmp_path, "p.json", {"budget_cents": 4}))
    assert (found.production.made, found.candidate.made) == (2, 1)
    denied = beside(runtime, session.run_id, written(tmp_path, "a.toml", 'denied_skills = ["buy"]\n'))
    assert denied.candidate.calls["c2"].code == "ERR_PERMISSION_DENIED"


def test_more_retries_are_assumed_to_fail_as_the_last_one_did(tmp_path: Path) -> None:
    @skill("flaky", version="1.0.0", tool_class="read", retry={"max_retries": 1, "backoff_base_ms": 1})
    def flaky() -> str:
        raise TimeoutError

    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[flaky])
    run_id = runtime.run({**PLAN, "steps": [{"step_id": "try", "skill_id": "flaky"}]}).run_id
    found = beside(runtime, run_id, written(tmp_path, "p.json", {"retry": {"max_retries": 3}}))
    assert (found.candidate.calls["try"].basis, found.candidate.status) == ("assumed", "failed")


# -- live --------------------------------------------------------------------------------------------------------------


def test_a_live_run_has_its_shadow_and_never_waits_for_it(tmp_path: Path) -> None:
    heard: list[tuple[str, bool]] = []
    held = threading.Event()

    def on_report(run_id: str, found: Counterfactual) -> None:
        assert held.wait(30)
        heard.append((run_id, found.same))

    beside_it = Shadow(sets={"context.budget_cents": 4}, to=tmp_path / "shadows", on_report=on_report)
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[price, buy], shadow=beside_it)
    CALLED.clear()
    results = [runtime.run(PLAN) for _ in range(3)]
    assert [result.status for result in results] == ["completed"] * 3, "while the first report is still held back"
    assert heard == []
    held.set()
    assert beside_it.wait(30)
    assert heard == [(result.run_id, False) for result in results]
    assert CALLED == ["price tea", "buy 450"] * 3
    report = json.loads((tmp_path / "shadows" / f"{results[0].run_id}.json").read_bytes())
    assert report["counterfactual"]["shadow_tool_calls"] == 1
    runtime.close()


def test_a_shadow_that_fails_is_told_and_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def on_failure(run_id: str, error: BaseException) -> None:
        told.append(f"{run_id} {error}")
        raise RuntimeError("it fails itself")

    def broken(_run_id: str, _found: Counterfactual) -> None:
        raise SystemExit(3)

    gone = Shadow(tmp_path / "gone.json", to=tmp_path / "shadows", on_failure=on_failure)
    with caplog.at_level(logging.WARNING, "reenact.shadow"):
        runtime = Runtime(store_at(tmp_path / "store.db"), skills=[price, buy], shadow=gone)
        result = runtime.run(PLAN)
        assert gone.wait(30)
        runtime.close()
        second = Shadow(sets={"context.budget_cents": 4}, on_report=broken)
        again = Runtime(store_at(tmp_path / "store.db"), skills=[price, buy], shadow=second)
        assert again.run(PLAN).status == "completed"
        assert second.wait(30)
        again.close()
    assert result.status == "completed"
    assert (gone.failures, second.failures) == (1, 1)
    (only,) = told
    assert only.startswith(f"{result.run_id} {tmp_path / 'gone.json'}: No such file or directory; --with takes")
    assert "SystemExit" in caplog.text


def test_a_shadow_needs_somebody_to_tell_and_one_runtime(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="reports to a folder"):
        Shadow(sets={"context.budget_cents": 1})
    one = Shadow(model="x", to=tmp_path)
    Runtime(store_at(tmp_path / "a.db"), shadow=one).close()
    with pytest.raises(UsageError, match="another runtime already"):
        Runtime(store_at(tmp_path / "b.db"), shadow=one)


# -- commands ----------------------------------------------------------------------------------------------------------


def test_shadow_fork_and_diff_report_in_one_form(tmp_path: Path) -> None:
    reenact = Command(tmp_path)
    plan = reenact.plan({"skill_id": "json_transform", "parameters": {"data": [2, 1], "operation": "sort"}})
    first = reenact("run", plan, "--json").json["run_id"]
    done = reenact("shadow", first, "--set", "steps.s0.parameters.descending=true", "--report", "shadow.md")
    assert done.code == 1, done.err
    assert "they part at s0, in parameters" in done.out
    same = reenact("shadow", first, "--set", "context.budget_cents=5", "--json")
    assert (same.code, same.json["same"]) == (0, True)
    forked = reenact(
        "fork", first, "--at", "s0", "--live", "--set", "steps.s0.parameters.descending=true", "--report", "fork.json"
    )
    assert forked.code in (0, 1), forked.err
    assert reenact("diff", first, "last", "--report", "diff.json").code == 1
    reports = [json.loads((tmp_path / name).read_bytes()) for name in ("fork.json", "diff.json")]
    assert [report["kind"] for report in reports] == ["fork", "diff"]
    assert reports[0]["calls"] == reports[1]["calls"]
    assert all(report.keys() == same.json.keys() for report in reports)
    assert (tmp_path / "shadow.md").read_text(encoding="utf-8").startswith(f"# Shadow of run {first}\n")
    nothing = reenact("shadow", first)
    assert (nothing.code, "say what the candidate is" in error_line(nothing)) == (2, True)
