"""run, resume, recover: the way of a run through good and bad days."""

from __future__ import annotations

import json
import shlex
import signal
import sqlite3
from pathlib import Path

from tests.cli.harness import SKILLS, Command, error_line


def test_a_plan_runs_and_says_what_became_of_each_step(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "flaky"}, {"skill_id": "steady"})
    done = reenact("run", plan, "--skills", SKILLS)
    assert done.code == 0
    assert "s0  OK  3 attempts" in done.out
    assert "completed  2 steps, 5 cents" in done.out
    assert "s0: attempt 1 ERR_TIMEOUT, again in 1 ms" in done.err


def test_json_holds_the_run_and_every_outcome_and_nothing_else_is_printed(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "flaky"}, {"skill_id": "steady", "parameters": {"text": "Grüße\n"}})
    done = reenact("run", plan, "--skills", SKILLS, "--json")
    assert (done.code, done.err) == (0, "")
    result = done.json
    assert result["status"] == "completed"
    assert len(result["run_id"]) == 36
    assert [step["step_id"] for step in result["steps"]] == ["s0", "s1"]
    assert [step["retries"] for step in result["steps"]] == [2, 0]
    assert result["steps"][1]["outcome"]["details"]["output"] == {"text": "Grüße\n"}
    assert result["cost_cents"] == 5


def test_a_failed_step_fails_the_run_with_its_reason_in_one_line(reenact: Command) -> None:
    plan = reenact.plan(
        {"skill_id": "broken", "parameters": {"words": "no\x1b[31m such\nthing"}}, {"skill_id": "steady"}
    )
    done = reenact("run", plan, "--skills", SKILLS)
    assert done.code == 1
    assert "s0  ERR_VALIDATION_FAILED  no\\x1b[31m such\\nthing" in done.out
    assert "\x1b" not in done.out + done.err
    assert "s1" not in done.out


def test_a_step_that_needs_a_person_waits_with_exit_code_4(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "counts", "parameters": {"file": "f"}}, supervisor="ask")
    done = reenact("run", plan, "--skills", SKILLS, "--json")
    assert (done.code, done.json["status"]) == (4, "waiting")
    listed = reenact("ls", "--waiting", "--json")
    assert [item["run_id"] for item in listed.json] == [done.json["run_id"]]
    assert reenact("resume", "last", "--skills", SKILLS).code == 4
    assert not (reenact.folder / "f").exists()


def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(reenact: Command) -> None:
    gate = reenact.folder / "gate"
    plan = reenact.plan({"skill_id": "steady"}, {"skill_id": "waits", "parameters": {"file": str(gate)}})
    process = reenact.start("run", plan, "--skills", SKILLS)
    assert process.stderr is not None
    started = process.stderr.readline().split()
    assert process.stderr.readline() == "s0: OK\n"  # told with the commit before the second dispatch
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    run_id = started[1]
    assert process.returncode == 130
    assert err == f"interrupted; go on with: reenact resume {run_id} --skills {SKILLS}\n"

    gate.touch()
    resumed = reenact("resume", run_id[:30], "--skills", SKILLS, "--json")
    assert (resumed.code, resumed.json["status"]) == (0, "completed")
    assert reenact("verify", run_id).code == 0


def test_the_command_to_go_on_with_names_the_store_and_the_skills_that_were_given(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "counts", "parameters": {"file": "f"}}, supervisor="ask")
    done = reenact("run", plan, "--skills", SKILLS, "--store", "a store.db")
    run_id = done.out.split()[1]
    assert f"see  reenact show {run_id} --store 'a store.db'\n" in done.out
    approve = f"reenact approve {run_id} --store 'a store.db' --skills {SKILLS}"
    assert f"say  {approve} --reason '…'\nor   {approve.replace('approve', 'deny')} --reason '…'\n" in done.out
    assert done.out.endswith(f"then reenact resume {run_id} --store 'a store.db' --skills {SKILLS}\n")
    voted = reenact(*shlex.split(approve)[1:], "--reason", "it may")
    resume = f"reenact resume {run_id} --store 'a store.db' --skills {SKILLS}"
    assert voted.out.endswith(f"go on with: {resume}\n")
    bare = reenact("resume", run_id, "--store", "a store.db")
    assert bare.code == 4
    assert "counts@1.0.0" in bare.out
    assert reenact(*shlex.split(resume)[1:]).code == 0
    assert (reenact.folder / "f").exists()


def test_where_nobody_names_the_skills_and_the_policy_a_vote_says_which_are_needed(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "counts", "parameters": {"file": "f"}}, supervisor="ask")
    policy = reenact.folder / "policy.toml"
    policy.write_text("max_external_calls = 7\n")
    run_id = reenact("run", plan, "--skills", SKILLS, "--host-policy", policy).out.split()[1]
    voted = reenact("approve", "last", "--reason", "it may")
    needed = "with the --skills that have counts and the --host-policy that it was begun under"
    assert voted.out.endswith(f"go on with: reenact resume {run_id} {needed}\n")


def test_a_killed_run_is_recovered_without_repeating_what_is_recorded(reenact: Command) -> None:
    first, second = reenact.folder / "first", reenact.folder / "second"
    plan = reenact.plan(
        {"skill_id": "counts", "parameters": {"file": str(first)}},
        {"skill_id": "counts", "parameters": {"file": str(second)}},
    )
    killed = reenact("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="before_dispatch:2")
    assert killed.code == -signal.SIGKILL
    assert reenact("ls", "--json").json[0]["status"] == "running"
    recovered = reenact("recover", "--skills", SKILLS)
    assert recovered.code == 0
    assert "completed  2 steps" in recovered.out
    assert len(first.read_text().splitlines()) == len(second.read_text().splitlines()) == 1
    assert reenact("recover", "--skills", SKILLS).out == "nothing to recover\n"
    again = reenact("resume", "last", "--skills", SKILLS)
    assert again.code == 0
    assert len(second.read_text().splitlines()) == 1


def test_a_damaged_run_does_not_keep_the_others_from_being_recovered(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "steady"}, {"skill_id": "steady"})
    for _ in range(2):
        assert reenact("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="before_seal").code == -signal.SIGKILL
    with sqlite3.connect(reenact.store) as db:
        db.execute("DROP TRIGGER commits_are_not_updated")
        db.execute("UPDATE commits SET body = x'00' WHERE id = (SELECT min(id) FROM commits)")
    done = reenact("recover", "--skills", SKILLS, "--json")
    assert done.code == 1
    damaged, whole = done.json
    assert (damaged["status"], whole["status"]) == ("running", "completed")
    assert "commit 1" in damaged["error"]


def test_a_pinned_plan_is_run_as_it_is(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "steady"})
    pinned = reenact("pin", plan, "-o", "pinned.json", "--skills", SKILLS, "--json").json
    assert json.loads((reenact.folder / "pinned.json").read_text()) == pinned["plan"]
    assert pinned["plan"]["steps"][0]["skill_version"] == "1.0.0"
    assert reenact("run", "pinned.json", "--skills", SKILLS).code == 0
    assert reenact("show", "last", "--json").json["plan_hash"] == pinned["plan_hash"]
    again = reenact("pin", "pinned.json", "--skills", SKILLS)
    assert (json.loads(again.out), again.err.strip()) == (pinned["plan"], pinned["plan_hash"])


def test_the_store_is_the_option_then_the_variable_then_the_data_directory(reenact: Command, tmp_path: Path) -> None:
    plan = reenact.plan({"skill_id": "steady"})
    named = tmp_path / "named.db"
    assert reenact("run", plan, "--skills", SKILLS, "--store", f"sqlite:///{named}").code == 0
    assert named.exists()
    assert not reenact.store.exists()
    assert reenact("run", plan, "--skills", SKILLS, REENACT_STORE="", XDG_DATA_HOME=str(tmp_path / "data")).code == 0
    assert (tmp_path / "data" / "reenact" / "reenact.db").exists()
    wrong = reenact("ls", "--store", "mysql://somewhere/else")
    assert wrong.code == 2
    assert "sqlite:///PATH" in error_line(wrong)


def test_a_long_run_lists_what_did_not_go_well_at_once(reenact: Command) -> None:
    steps = [{"skill_id": "flaky", "parameters": {"failures": int(number == 17)}} for number in range(60)]
    done = reenact("run", reenact.plan(*steps), "--skills", SKILLS)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["s17", "OK", "2", "attempts"]
    assert lines[1] == "  and 59 steps that went well at once"
    assert "completed  60 steps" in lines[2]


def test_a_step_that_was_sent_again_is_not_said_to_be_when_it_is_skipped(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "counts", "parameters": {"file": "f"}})
    reenact("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="after_dispatch")
    assert "s0: attempt 1 was in doubt, sent again\n" in reenact("recover", "--skills", SKILLS).err
    replayed = reenact("replay", "last", "--mode", "full_replay", "--skills", SKILLS)
    assert "skipped" in replayed.out
    assert "sent again" not in replayed.out + replayed.err
    assert len((reenact.folder / "f").read_text().splitlines()) == 2


def test_a_plan_in_yaml_is_told_that_plans_are_json(reenact: Command) -> None:
    (reenact.folder / "plan.yaml").write_text("plan_id: a\nagent_id: x\nsteps: []\n")
    refused = reenact("run", "plan.yaml")
    assert refused.code == 2
    assert "a plan is JSON, not YAML" in refused.err


def test_runs_that_nobody_works_on_can_be_listed_alone(reenact: Command) -> None:
    gate = reenact.folder / "gate"
    assert reenact("run", reenact.plan({"skill_id": "steady"}), "--skills", SKILLS).code == 0
    plan = reenact.plan({"skill_id": "steady"}, {"skill_id": "waits", "parameters": {"file": str(gate)}})
    process = reenact.start("run", plan, "--skills", SKILLS)
    assert process.stderr is not None
    while process.stderr.readline() != "s0: OK\n":
        pass
    assert reenact("ls", "--status", "interrupted").out == "no runs\n"
    process.kill()
    process.wait()
    (left,) = reenact("ls", "--status", "interrupted", "--json").json
    assert (left["status"], left["interrupted"]) == ("running", True)
    assert len(reenact("ls", "--status", "interrupted", "--status", "completed", "--json").json) == 2
