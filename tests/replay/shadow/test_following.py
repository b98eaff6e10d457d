"""Beside a live run the candidate decides call by call, and says what it says of the run afterwards."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.record.recording import load_recording
from reenact.replay.compare.counterfactual import CallRow, Counterfactual, as_document
from reenact.replay.shadow.candidate import Wanted, candidate_of
from reenact.replay.shadow.live import Shadow
from reenact.replay.shadow.shadow import shadow
from reenact.runtime.effects.coroutines import run_sync
from tests.engines.places import store_at
from tests.replay.shadow.test_shadow import NEXT_VERSION, PLAN, buy, price, written

GATES: dict[str, threading.Event] = {}


@skill("wait", version="1.0.0", tool_class="read", cost_estimate_cents=2)
def wait(name: str) -> str:
    """Comes back when it is let."""
    assert GATES[name].wait(30)
    return name


def spelled(word: str) -> str:
    return word.upper()


def waiting(*names: str) -> dict[str, Any]:
    GATES.update({name: threading.Event() for name in names})
    steps = [{"step_id": name, "skill_id": "wait", "parameters": {"name": name}} for name in names]
    return {"plan_id": "p", "agent_id": "a", "steps": steps, "context": {"budget_cents": 20}}


class Heard:
    """What a shadow tells, as it comes."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str | None, str | None]] = []
        self.reports: list[Counterfactual] = []
        self.came = threading.Condition()

    def on_call(self, _run_id: str, row: CallRow) -> None:
        with self.came:
            sides = (None if side is None else side.code for side in (row.production, row.candidate))
            self.rows.append((row.step_id, *sides))  # type: ignore[arg-type]
            self.came.notify_all()

    def on_report(self, _run_id: str, found: Counterfactual) -> None:
        self.reports.append(found)

    def until(self, count: int) -> list[tuple[str, str | None, str | None]]:
        with self.came:
            assert self.came.wait_for(lambda: len(self.rows) >= count, 30), self.rows
        return self.rows


def afterwards(runtime: Runtime, run_id: str, wanted: Wanted) -> dict[str, object]:
    recording = load_recording(runtime.store, run_id)
    return as_document(run_sync(shadow(recording, candidate_of(recording, runtime.registry.freeze(), wanted))))


def test_each_call_is_decided_while_the_run_goes_on(tmp_path: Path) -> None:
    heard = Heard()
    beside = Shadow(sets={"context.budget_cents": 3}, on_call=heard.on_call, on_report=heard.on_report)
    runtime = Runtime(store_at(tmp_path / "s.db"), skills=[wait], shadow=beside)
    plan = waiting("a", "b", "c")
    going = threading.Thread(target=runtime.run, args=(plan,))
    going.start()
    assert heard.rows == []
    GATES["a"].set()
    assert heard.until(1) == [("a", "OK", "OK")]
    GATES["b"].set()
    assert heard.until(2)[1:] == [("b", "OK", "ERR_BUDGET_EXCEEDED")], "while c is still under way"
    assert heard.reports == []
    assert going.is_alive()
    GATES["c"].set()
    going.join(30)
    assert beside.wait(30)
    assert heard.rows[2:] == [("c", "OK", None)], "the candidate does not come to it"
    (report,) = heard.reports
    run_id = runtime.store.runs()[0].run_id
    assert as_document(report) == afterwards(runtime, run_id, Wanted(sets={"context.budget_cents": 3}))
    runtime.close()


CANDIDATES: dict[str, tuple[str, object]] = {
    "a smaller budget": ("p.json", {"budget_cents": 4, "policy_version": "v2"}),
    "a policy that denies": ("a.toml", 'denied_skills = ["buy"]\n'),
    "a policy that refuses all of it": ("b.toml", 'agents = ["nobody"]\n'),
    "a person is asked": ("ask.json", {"supervisor": "ask"}),
    "another version of a skill": ("next_version.py", NEXT_VERSION),
    "a plan of its own": ("plan.json", {**PLAN, "steps": [*PLAN["steps"][1:2], *PLAN["steps"][:1]]}),
    "nothing that matters": ("n.json", {"budget_cents": 19}),
}


@pytest.mark.parametrize("name", CANDIDATES)
@pytest.mark.parametrize("kind", ["plan", "session"])
def test_what_is_told_of_a_live_run_is_what_is_told_of_it_afterwards(name: str, kind: str, tmp_path: Path) -> None:
    heard, (file, content) = Heard(), CANDIDATES[name]
    path = written(tmp_path, file, content)
    beside = Shadow(path, on_call=heard.on_call, on_report=heard.on_report)
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[price, buy], shadow=beside)
    if kind == "plan":
        run_id = runtime.run(PLAN).run_id
    else:
        with runtime.session(agent_id="buyer", goal="tea", context={"budget_cents": 20}) as session:
            session.call("price", {"item": "tea"})
            assert beside.wait(30)
            session.call("buy", {"cents": 450})
            session.call("nobody", {"knows": 1})
            session.call("price", {"item": "tea"})
        run_id = session.run_id
    assert beside.wait(30)
    assert beside.failures == 0
    (report,) = heard.reports
    after = afterwards(runtime, run_id, Wanted((path,)))
    assert as_document(report) == after
    told = {row[0] for row in heard.rows}
    assert told >= set(load_recording(runtime.store, run_id).steps)
    runtime.close()


def test_a_tool_that_only_the_session_knows_is_decided_as_it_was(tmp_path: Path) -> None:
    heard = Heard()
    beside = Shadow(sets={"context.budget_cents": 3}, on_call=heard.on_call, on_report=heard.on_report)
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[price], shadow=beside)
    with runtime.session(agent_id="buyer", context={"budget_cents": 20}) as session:
        session.step(spelled, "tea")
        session.call("price", {"item": "tea"})
        session.call("price", {"item": "milk"})
    assert beside.wait(30)
    assert [row[1:] for row in heard.rows] == [("OK", "OK"), ("OK", "OK"), ("OK", "ERR_BUDGET_EXCEEDED")]
    assert as_document(heard.reports[0]) == afterwards(
        runtime, session.run_id, Wanted(sets={"context.budget_cents": 3})
    )
    runtime.close()


def test_what_is_known_only_afterwards_is_reported_then(tmp_path: Path) -> None:
    heard = Heard()
    beside = Shadow(sets={"outputs.look.cents": 900}, on_call=heard.on_call, on_report=heard.on_report)
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[price, buy], shadow=beside)
    runtime.run(PLAN)
    assert beside.wait(30)
    assert (heard.rows, len(heard.reports), beside.failures) == ([], 1, 0)
    runtime.close()


def test_a_long_session_is_decided_in_larger_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reenact.replay.shadow import following

    monkeypatch.setattr(following, "LONG", 4)
    heard = Heard()
    beside = Shadow(sets={"context.budget_cents": 9}, on_call=heard.on_call, on_report=heard.on_report)
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[price, buy], shadow=beside)
    with runtime.session(agent_id="buyer", context={"budget_cents": 99}) as session:
        for number in range(24):
            session.call("price", {"item": f"tea {number}"})
            if number % 5 == 0:
                assert beside.wait(30)
    assert beside.wait(30)
    assert [row[0] for row in heard.rows] == [f"c{number}" for number in range(1, 25)]
    wanted = Wanted(sets={"context.budget_cents": 9})
    assert as_document(heard.reports[0]) == afterwards(runtime, session.run_id, wanted)
    runtime.close()
