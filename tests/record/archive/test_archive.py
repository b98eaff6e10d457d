"""Values of sealed runs moved to bundles and back: nothing is lost, the chain stays whole, what is erased stays so."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.cli.screens.timeline_lines import event_line
from reenact.errors import EvidenceError, UsageError
from reenact.record.archive.moving import age_ms, candidates, move
from reenact.record.archive.restoring import restore
from reenact.record.bundle import load_bundle
from reenact.record.document import read_bundle_document, read_document
from reenact.record.document_shape import EventDocument, RunDocument
from reenact.record.erase import erase
from reenact.record.export import export_run
from reenact.skills.registry import Registry
from reenact.store.checks.verification import verify_run
from reenact.values.clock import FixedClock
from reenact.verify import verify_bundle
from tests.cli.harness import SKILLS, Command
from tests.engines import places
from tests.engines.places import store_at
from tests.record.archive.killing import archive_all, killed, restore_all
from tests.verify.changing import changed_files, read_folder, write_folder

LATER = 1 << 45
EVERY = os.environ.get("KILL_EVERY")
calls: list[str] = []


@skill("talk", version="1.0.0", tool_class="write", honours_key=True)
def talk(text: str) -> dict[str, str]:
    """Says it back, at some length."""
    calls.append(text)
    return {"said": f"{text} " * 300}


def runtime_at(path: Path) -> Runtime:
    return Runtime(store_at(path), skills=Registry([talk]))


def a_run(runtime: Runtime, *texts: str) -> str:
    steps = [
        {"step_id": f"s{n}", "skill_id": "talk", "skill_version": "1.0.0", "parameters": {"text": text}}
        for n, text in enumerate(texts)
    ]
    return runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps}).run_id


def values(runtime: Runtime, run_id: str) -> dict[str, bytes]:
    return dict(runtime.store.payloads(run_id))


def moved(runtime: Runtime, run_id: str, folder: Path) -> int:
    return move(runtime.store, run_id, folder, who="ada", reason="old").values


def records(runtime: Runtime) -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in runtime.store.erasures()]


def test_values_go_to_a_verified_bundle_and_come_back_as_they_were(tmp_path: Path) -> None:
    runtime = runtime_at(tmp_path / "s.db")
    run_id = a_run(runtime, "one", "two", "one")
    before = values(runtime, run_id)
    assert moved(runtime, run_id, tmp_path / "archive") == len(before)
    assert values(runtime, run_id) == {}
    verified = verify_run(store_at(tmp_path / "s.db"), run_id)
    assert (verified.report.exit_code, verified.differences) == (0, ())
    assert (verified.report.counts.archived, verified.report.counts.erased) == (len(before), 0)
    digest = json.loads((tmp_path / "archive" / run_id / "manifest.json").read_text())["digest"]
    for record in records(runtime):
        assert (record["schema"], record["type"], record["bundle"]) == ("reenact.erasure.v2", "archived", digest)
    assert verify_bundle(tmp_path / "archive" / run_id).exit_code == 0
    with pytest.raises(EvidenceError, match=r"is archived in .*: `reenact archive --restore"):
        runtime.replay(run_id)

    assert restore(runtime.store, run_id).values == len(before)
    assert values(runtime, run_id) == before
    verified = verify_run(store_at(tmp_path / "s.db"), run_id)
    assert (verified.report.exit_code, verified.differences, verified.report.counts.archived) == (0, (), 0)
    assert runtime.replay(run_id).matches
    assert moved(runtime, run_id, tmp_path / "archive") == len(before), "and once more, to the same bundle"
    assert verify_run(store_at(tmp_path / "s.db"), run_id).report.exit_code == 0


def test_what_is_exported_of_an_archived_run_verifies_and_says_so(tmp_path: Path) -> None:
    runtime = runtime_at(tmp_path / "s.db")
    run_id = a_run(runtime, "one")
    count = moved(runtime, run_id, tmp_path / "archive")
    export_run(store_at(tmp_path / "s.db"), run_id, tmp_path / "bundle")
    report = verify_bundle(tmp_path / "bundle")
    assert (report.exit_code, report.counts.archived, report.authenticity) == (0, count, "holds")


def test_a_bundle_says_where_the_plan_is_that_it_does_not_hold(tmp_path: Path) -> None:
    """It was verified: nothing of it is lost, and nobody has a store to restore it to."""
    runtime = runtime_at(tmp_path / "s.db")
    run_id = a_run(runtime, "one")
    moved(runtime, run_id, tmp_path / "archive")
    export_run(store_at(tmp_path / "s.db"), run_id, tmp_path / "archived")
    digest = json.loads((tmp_path / "archive" / run_id / "manifest.json").read_text())["digest"]
    with pytest.raises(EvidenceError, match=f"is archived in the bundle {digest}, and not here"):
        load_bundle(tmp_path / "archived")
    erase(runtime.store, run_id, None, who="ada", reason="request 42")
    export_run(store_at(tmp_path / "s.db"), run_id, tmp_path / "erased")
    with pytest.raises(EvidenceError, match="was erased; it cannot be run again"):
        load_bundle(tmp_path / "erased")


def test_a_session_that_is_started_again_is_told_where_its_values_are(tmp_path: Path) -> None:
    """Nobody erased them, and they come back."""
    runtime = runtime_at(tmp_path / "s.db")

    def program() -> object:
        with runtime.session(id="order") as session:
            return session.call("talk", {"text": "one"}).output

    said = program()
    run_id = runtime.store.runs()[0].run_id
    moved(runtime, run_id, tmp_path / "first")
    restore(runtime.store, run_id)
    moved(runtime, run_id, tmp_path / "second")
    where = f"is archived in {tmp_path / 'second' / run_id}: `reenact archive --restore {run_id}` brings it back"
    with pytest.raises(EvidenceError, match=re.escape(where)):
        program()
    restore(runtime.store, run_id)
    made = len(calls)
    assert (program(), len(calls)) == (said, made)


def told(document: RunDocument) -> tuple[str | None, EventDocument]:
    """What is said of the step, and of the check of the work."""
    return document["steps"][0]["message"], next(each for each in document["events"] if each["type"] == "verify")


def test_words_that_are_archived_or_left_out_are_not_called_erased(tmp_path: Path) -> None:
    @skill("fails", version="1.0.0", tool_class="read")
    def fails() -> None:
        raise ValueError("with these words")

    runtime = Runtime(store_at(tmp_path / "s.db"), skills=Registry([fails]))
    with runtime.session() as session:
        session.call("fails", {})
        session.verify(["true"])
    run_id = session.run_id
    export_run(store_at(tmp_path / "s.db"), run_id, tmp_path / "bare", payloads="none")
    moved(runtime, run_id, tmp_path / "archive")
    export_run(store_at(tmp_path / "s.db"), run_id, tmp_path / "archived")
    in_store, archived, bare = (
        told(read_document(runtime.store, run_id)),
        told(read_bundle_document(tmp_path / "archived")),
        told(read_bundle_document(tmp_path / "bare")),
    )
    for message, event in (in_store, archived):
        assert message == "the value is archived; its commitment still stands"
        assert (event.get("archived"), "erased" in event) == (True, False)
        assert event_line(event)[-1][0].endswith("(what was said is archived)")
    assert bare[0] == "the value was left out of this export; its commitment still stands"
    assert (bare[1].get("withheld"), "erased" in bare[1]) == (True, False)
    erase(runtime.store, run_id, None, who="ada", reason="request 42")
    export_run(store_at(tmp_path / "s.db"), run_id, tmp_path / "erased")
    for message, event in (told(read_document(runtime.store, run_id)), told(read_bundle_document(tmp_path / "erased"))):
        assert (message, event.get("erased")) == ("the value was erased; its commitment still stands", True)


def test_what_is_erased_after_it_was_archived_is_not_restored(tmp_path: Path) -> None:
    runtime = runtime_at(tmp_path / "s.db")
    run_id = a_run(runtime, "one", "two")
    count = moved(runtime, run_id, tmp_path / "archive")
    gone = erase(runtime.store, run_id, "s1", who="ada", reason="request 42")
    assert gone > 0
    assert records(runtime)[-1]["type"] == "erased"
    back = restore(runtime.store, run_id)
    assert (back.values, back.erased) == (count - gone, gone)
    report = verify_run(store_at(tmp_path / "s.db"), run_id).report
    assert (report.exit_code, report.counts.erased, report.counts.present) == (0, gone, count - gone)
    moved(runtime, run_id, tmp_path / "other")
    erase(runtime.store, run_id, None, who="ada", reason="request 43")
    with pytest.raises(UsageError, match="or were erased"):
        restore(runtime.store, run_id)
    with pytest.raises(EvidenceError, match="were erased since they were archived: they stay so"):
        restore(runtime.store, str(tmp_path / "archive" / run_id))
    assert verify_run(store_at(tmp_path / "s.db"), run_id).report.exit_code == 0


def test_a_changed_bundle_restores_nothing(tmp_path: Path) -> None:
    runtime = runtime_at(tmp_path / "s.db")
    run_id = a_run(runtime, "one")
    moved(runtime, run_id, tmp_path / "archive")
    folder = tmp_path / "archive" / run_id
    files = changed_files(read_folder(folder), [{"replace": ["journal.jsonl", "COMPLETED", "COMPLETEE"]}])
    with pytest.raises(EvidenceError, match="cannot be restored"):
        restore(runtime.store, str(write_folder(tmp_path / "changed", files)))
    other = a_run(runtime, "other")
    shutil.copytree(folder, tmp_path / "archive" / other)
    with pytest.raises(EvidenceError, match="is not a whole bundle of run"):
        moved(runtime, other, tmp_path / "archive")
    assert values(runtime, other)


def test_a_key_whose_answer_is_archived_is_answered_and_nothing_is_sent(tmp_path: Path) -> None:
    runtime = runtime_at(tmp_path / "s.db")
    with runtime.session(agent_id="a") as session:
        first = session.call("talk", {"text": "once"}, idempotency_key="k")
    assert first.ok
    moved(runtime, session.run_id, tmp_path / "archive")
    made = len(calls)
    with runtime.session(agent_id="a") as again:
        outcome = again.call("talk", {"text": "once"}, idempotency_key="k")
    assert (outcome.ok, outcome.output, len(calls)) == (True, {"$archived": True}, made)
    assert verify_run(store_at(tmp_path / "s.db"), again.run_id).report.exit_code == 0


def test_only_sealed_runs_that_are_old_enough_are_chosen(tmp_path: Path) -> None:
    runtime = runtime_at(tmp_path / "s.db")
    run_id = a_run(runtime, "one")
    assert [each.run_id for each in candidates(runtime.store, before_ms=LATER)] == [run_id]
    assert list(candidates(runtime.store, before_ms=runtime.clock.now_ms() - age_ms("1d"))) == []
    moved(runtime, run_id, tmp_path / "archive")
    assert list(candidates(runtime.store, before_ms=LATER)) == []
    for text in ("90", "d", "-1d", "1y", "1e3d", "١d"):
        with pytest.raises(UsageError, match="say a number"):
            age_ms(text)


@pytest.mark.parametrize("does", ["archive", "restore"])
def test_killed_anywhere_nothing_is_lost_and_the_next_one_goes_on(tmp_path: Path, does: str) -> None:
    runtime = runtime_at(tmp_path / "s.db")
    runs = {run_id: values(runtime, run_id) for run_id in (a_run(runtime, "one", "two"), a_run(runtime, "three"))}
    runtime.close()
    if does == "restore":
        archive_all(str(tmp_path / "s.db"), str(tmp_path / "archive"))
    number, kills = 1, 0
    while killed(does, tmp_path / "s.db", tmp_path / "archive", number):
        kills += 1
        number = number + int(EVERY) if EVERY else number * 2 + 1
        held(tmp_path, runs)
    print(f"{does}: {kills} kills")
    assert kills > 6
    archive_all(str(tmp_path / "s.db"), str(tmp_path / "archive"))
    held(tmp_path, runs)
    restore_all(str(tmp_path / "s.db"), str(tmp_path / "archive"))
    after = runtime_at(tmp_path / "s.db")
    assert {run_id: values(after, run_id) for run_id in runs} == runs


def held(tmp_path: Path, runs: dict[str, dict[str, bytes]]) -> None:
    """Every value is in the store, or on record as archived in a bundle that holds it; and all of it verifies."""
    runtime = runtime_at(tmp_path / "s.db")
    for run_id, before in runs.items():
        here = values(runtime, run_id)
        assert here.items() <= before.items()
        assert {*here, *runtime.store.archived_values(run_id)} == set(before)
        report = verify_run(store_at(tmp_path / "s.db"), run_id).report
        assert report.exit_code == 0, report.first_break
        if here != before:
            bundle = verify_bundle(tmp_path / "archive" / run_id)
            assert (bundle.exit_code, bundle.counts.present) == (0, len(before))
    runtime.close()


def test_the_command_says_first_and_does_with_yes(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "steady", "parameters": {"text": "a private word"}})
    assert reenact("run", plan, "--skills", SKILLS).code == 0
    named = () if places.database is None else ("--to", "kept")  # a store in a file has a place beside it
    said = reenact("archive", "--older-than", "0m", *named)
    assert (said.code, "1 run would go to" in said.out) == (0, True)
    assert reenact("archive", "--older-than", "90d", *named).out.startswith("0 runs would go to")
    done = reenact("archive", "--older-than", "0m", "--to", "kept", "--yes", "--json")
    assert (done.code, done.json["moved"][0]["values"] > 0) == (0, True)
    run_id = done.json["moved"][0]["run_id"]
    assert reenact("verify", f"kept/{run_id}").code == 0
    refused = reenact("replay", "last")
    assert (refused.code, "archive --restore" in refused.err) == (1, True)
    assert '{"$archived":true}' in reenact("show", "last", "--values").out
    assert "would be restored" in reenact("archive", "--restore", f"kept/{run_id}").out
    assert reenact("archive", "--restore", "last", "--yes").code == 0
    assert reenact("replay", "last").code == 0
    assert reenact("archive", "--older-than", "0m", "--to", "kept", "--yes").code == 0
    erased = reenact("erase", "last", "--reason", "asked", "--yes")
    assert "whoever keeps it has to destroy it" in erased.out
    for words, code in ((("--restore", "last"), 2), ((), 2), (("--older-than", "soon"), 2), (("--restore", "./no"), 3)):
        failed = reenact("archive", *words, "--yes")
        assert (failed.code, failed.err.count("\n")) == (code, 1), failed.err


def test_the_replay_log_of_an_archived_run_calls_nothing_erased_and_keeps_what_needs_no_value(tmp_path: Path) -> None:
    runtime = runtime_at(tmp_path / "s.db")
    run_id = a_run(runtime, "one", "two")
    before = exported(tmp_path, run_id, "before")
    moved(runtime, run_id, tmp_path / "archive")
    after = exported(tmp_path, run_id, "after")
    assert b"erased" not in b"".join(after.values())
    old, new = (lines_of(files["REPLAY.jsonl"]) for files in (before, after))
    of_values = {"params", "params_hash", "output_hash", "output_preview", "policy_version"}
    assert [bare(line, of_values) for line in old] == [bare(line, of_values) for line in new]
    calls, results = ([line for line in new if line["event"] == event] for event in ("ToolCall", "ToolResult"))
    assert [call["params"] for call in calls] == [{"$archived": True}] * 2
    assert [result["output_preview"] for result in results] == ['{"$archived":true}'] * 2
    assert new[1]["policy_version"] == "archived"
    receipts = [json.loads(files["RECEIPT.json"]) for files in (before, after)]
    assert receipts[1]["policy_version"] == "archived"
    assert [call["latency_ms"] for call in receipts[0]["tool_calls"]] == [
        call["latency_ms"] for call in receipts[1]["tool_calls"]
    ]
    restore(runtime.store, run_id)
    restored = exported(tmp_path, run_id, "restored")
    assert {name: restored[name] for name in ("REPLAY.jsonl", "RECEIPT.json")} == {
        name: before[name] for name in ("REPLAY.jsonl", "RECEIPT.json")
    }


def test_what_was_erased_after_it_was_archived_is_called_erased(tmp_path: Path) -> None:
    runtime = runtime_at(tmp_path / "s.db")
    run_id = a_run(runtime, "one", "two")
    moved(runtime, run_id, tmp_path / "archive")
    erase(runtime.store, run_id, "s1", who="ada", reason="request 42")
    told = [line["params"] for line in lines_of(exported(tmp_path, run_id, "b")["REPLAY.jsonl"]) if "params" in line]
    assert told == [{"$archived": True}, {"$erased": True}]


def test_a_latency_that_no_attempt_tells_outlives_its_value(tmp_path: Path) -> None:
    """Two attempts, and an end that neither of them made: the outcome says 0, the attempts took longer."""
    clock = FixedClock()

    @skill("slow", version="1.0.0", tool_class="read")
    def slow() -> str:
        clock.advance(0.25)
        raise TimeoutError

    retry = {"max_retries": 3, "retryable_codes": ["ERR_TIMEOUT"]}
    step = {"step_id": "s", "skill_id": "slow", "skill_version": "1.0.0", "parameters": {}, "retry": retry}
    plan = {"plan_id": "p", "agent_id": "a", "steps": [step], "context": {"time_limit_ms": 300}}
    runtime = Runtime(store_at(tmp_path / "s.db"), skills=Registry([slow]), clock=clock)
    run_id = runtime.run(plan).run_id
    before = lines_of(exported(tmp_path, run_id, "before")["REPLAY.jsonl"])
    moved(runtime, run_id, tmp_path / "archive")
    after = lines_of(exported(tmp_path, run_id, "after")["REPLAY.jsonl"])
    latencies = [[line["latency_ms"] for line in lines if "latency_ms" in line] for lines in (before, after)]
    assert latencies == [[0], [0]]
    assert after[-1]["total_latency_ms"] == 0


def exported(tmp_path: Path, run_id: str, name: str) -> dict[str, bytes]:
    export_run(store_at(tmp_path / "s.db"), run_id, tmp_path / name)
    assert verify_bundle(tmp_path / name).exit_code == 0
    return read_folder(tmp_path / name)


def lines_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def bare(line: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in names}
