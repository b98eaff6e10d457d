"""ls and show: what was recorded, for people and for programs."""

from __future__ import annotations

from contextlib import closing

from reenact import Runtime
from tests.cli.harness import SKILLS, Command
from tests.cli.sample_skills import steady


def test_ls_lists_the_newest_first_and_filters(reenact: Command) -> None:
    good = reenact.plan({"skill_id": "steady"}, name="good.json")
    bad = reenact.plan({"skill_id": "broken"}, name="bad.json")
    assert reenact("run", good, "--skills", SKILLS).code == 0
    assert reenact("run", bad, "--skills", SKILLS).code == 1
    listed = reenact("ls", "--json").json
    assert [item["status"] for item in listed] == ["failed", "completed"]
    assert all(item["plan_id"] == "a-plan" and item["run_id"] for item in listed)
    assert [item["status"] for item in reenact("ls", "--json", "--status", "completed").json] == ["completed"]
    assert len(reenact("ls", "--json", "--limit", "1").json) == 1
    assert reenact("ls", "--waiting").out == "no runs\n"
    plain = reenact("ls").out.splitlines()
    assert plain[0].split() == ["RUN", "STATUS", "STARTED", "PLAN"]
    assert plain[1].startswith(listed[0]["run_id"] + "  failed ")


def test_show_tells_attempts_codes_back_offs_costs_and_digests(recorded: Command) -> None:
    run = recorded("show", "last", "--json").json
    flaky, steady = run["steps"]
    assert [attempt["code"] for attempt in flaky["attempts"]] == ["ERR_TIMEOUT", "ERR_TIMEOUT", "OK"]
    assert [attempt["backoff_ms"] for attempt in flaky["attempts"]] == [1, 2, None]
    assert (flaky["cost_cents"], steady["cost_cents"], run["cost_cents"]) == (3, 2, 5)
    assert steady["decision"]["rationale"] == "Approved by auto"
    assert run["seal"]["seal_digest"]
    text = recorded("show", "last").out
    for told in (
        "attempt 2  ERR_TIMEOUT",
        "back-off 2 ms",
        "$0.03, charged as 3 cents",
        "Approved by auto",
        flaky["attempts"][1]["digest"][:12],
        steady["digests"]["effect"][:12],
        run["seal"]["seal_digest"],
        run["plan_hash"],
    ):
        assert told in text, told


def test_values_are_shown_only_when_asked_for(recorded: Command) -> None:
    for arguments in (["show", "last"], ["show", "last", "--json"], ["ls"], ["verify", "last", "--json"]):
        assert "a private word" not in recorded(*arguments).out
    assert 'parameters {"text":"a private word"}' in recorded("show", "last", "--values").out
    assert recorded("show", "last", "--values", "--json").json["steps"][1]["output"] == {"text": "a private word"}


def test_a_run_that_has_not_ended_shows_where_it_stands(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "steady"}, {"skill_id": "counts", "parameters": {"file": "f"}}, supervisor="ask")
    assert reenact("run", plan, "--skills", SKILLS).code == 4
    run = reenact("show", "last", "--json").json
    assert [step["state"] for step in run["steps"]] == ["COMPLETED", "PENDING"]
    assert run["seal"] is None
    text = reenact("show", "last").out
    assert "counts@1.0.0  PENDING" in text
    assert "waits for a person to approve or deny it" in text
    assert "none yet" in text


def test_a_refused_step_is_shown_with_the_gate_and_the_reason(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "steady", "parameters": {"text": 7}})
    assert reenact("run", plan, "--skills", SKILLS).code == 1
    step = reenact("show", "last", "--json").json["steps"][0]
    assert (step["state"], step["status"], step["attempts"]) == ("DENIED", "failure", [])
    assert step["decision"]["gate"] == "validate"
    assert step["code"] in reenact("show", "last").out


def test_ls_lists_the_runs_before_one(reenact: Command) -> None:
    good = reenact.plan({"skill_id": "steady"}, name="good.json")
    for _ in range(3):
        assert reenact("run", good, "--skills", SKILLS).code == 0
    newest, middle, oldest = (item["run_id"] for item in reenact("ls", "--json").json)
    assert [item["run_id"] for item in reenact("ls", "--json", "--before", newest).json] == [middle, oldest]
    assert [item["run_id"] for item in reenact("ls", "--json", "--before", "last", "--limit", "1").json] == [middle]
    assert reenact("ls", "--before", "nobody").code == 2


def test_ls_shows_the_newest_fifty_and_says_so(reenact: Command) -> None:
    step = {"step_id": "a", "skill_id": "steady", "parameters": {}}
    plan = {"plan_id": "p", "agent_id": "a", "goal": "g", "created_at": "2026-11-15T09:00:00.000Z", "steps": [step]}
    with closing(Runtime(f"sqlite:///{reenact.store}", skills=[steady])) as runtime:
        ids = [runtime.run(plan).run_id for _ in range(52)]
    done = reenact("ls")
    assert [line.split()[0] for line in done.out.splitlines()[1:]] == list(reversed(ids[2:]))
    assert f"`reenact ls --before {ids[2]}`" in done.err
    assert [line.split()[0] for line in reenact("ls", "--before", ids[2]).out.splitlines()[1:]] == [ids[1], ids[0]]
    assert len(reenact("ls", "--json").json) == 52
    assert len(reenact("ls", "--limit", "51").out.splitlines()) == 52
