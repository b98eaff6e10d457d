"""Every command about a store does its work on every engine, as whoever types it meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.harness import SKILLS, Command, Done


class Shared(Command):
    """`reenact` with the store of a URL."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url

    def env(self, **more: str) -> dict[str, str]:
        data = {"REENACT_STORE": self.url, "XDG_DATA_HOME": str(self.folder / "data")}
        return super().env(**{**data, **more})

    def done(self, *words: str | Path, code: int = 0) -> Done:
        done = self(*words)
        assert done.code == code, (words, done.out, done.err)
        return done


@pytest.fixture
def shared(store_url: str, tmp_path: Path) -> Shared:
    return Shared(tmp_path, store_url)


def run(shared: Shared, *steps: dict[str, object], code: int = 0, name: str = "plan.json", **context: object) -> str:
    done = shared.done("run", shared.plan(*steps, name=name, **context), "--skills", SKILLS, "--json", code=code)
    return str(done.json["run_id"])


def test_what_was_run_is_listed_shown_verified_exported_and_replayed(shared: Shared) -> None:
    text = "a private word that is told " * 100
    run_id = run(shared, {"skill_id": "flaky"}, {"skill_id": "steady", "parameters": {"text": text}})
    assert run_id in shared.done("ls").out
    assert "steady" in shared.done("show", run_id[:13]).out
    for target in (run_id, "last"):
        assert shared.done("verify", target, "--json").json["integrity"] == "holds"
    shared.done("export", run_id, "--to", "bundle")
    shared.done("verify", "bundle")
    assert (shared.folder / "bundle" / "REPLAY.jsonl").exists() == (shared.folder / "bundle" / "RECEIPT.json").exists()
    for mode in ("mock_replay", "dry_run"):
        shared.done("replay", run_id, "--mode", mode, "--skills", SKILLS)
    shared.done("play", run_id)
    shared.done("diff", run_id, run_id)
    shared.done("metrics")
    findings = shared.done("doctor", "--json", code=3 if shared.url.startswith("postgresql") else 0).json
    trouble = {each["subject"] for each in findings if each["verdict"] == "trouble"}
    assert trouble <= {"durability"}  # the server of tests does not wait for its disk


def test_a_person_decides_and_values_go_and_come_back(shared: Shared) -> None:
    counts: dict[str, object] = {"skill_id": "counts", "parameters": {"file": str(shared.folder / "counted")}}
    waiting = run(shared, counts, code=4, supervisor="ask")
    shared.done("approve", waiting, "s0", "--reason", "looked at it")
    shared.done("resume", waiting, "--skills", SKILLS)
    other = run(shared, counts, code=4, name="other.json", supervisor="ask")
    shared.done("deny", other, "s0", "--reason", "not this one")
    shared.done("recover", "--skills", SKILLS, code=1)
    third = run(shared, counts, code=4, name="third.json", supervisor="ask")
    shared.done("cancel", third, "--reason", "no need")
    shared.done("erase", waiting, "s0", "--reason", "asked for", "--yes")
    shared.done("verify", waiting)
    shared.done("archive", "--older-than", "0m", "--to", "archive", "--yes")
    assert any((shared.folder / "archive").iterdir())
    shared.done("verify", other)
    shared.done("archive", "--restore", other, "--yes")
    for run_id in (waiting, other, third):
        shared.done("verify", run_id)
    statuses = {row["run_id"]: row["status"] for row in shared.done("ls", "--json").json}
    assert statuses == {waiting: "completed", other: "failed", third: "cancelled"}


def test_keys_are_rotated_and_the_log_is_proven(shared: Shared) -> None:
    first = run(shared, {"skill_id": "steady"})
    before = shared.done("keys", "list", "--json").json
    shared.done("keys", "rotate")
    second = run(shared, {"skill_id": "steady"})
    after = shared.done("keys", "list", "--json").json
    assert len(after) == len(before) + 1
    checkpoint = shared.done("log", "checkpoint").out
    assert "reenact/" in checkpoint
    for run_id in (first, second):
        shared.done("log", "prove", run_id)
        shared.done("verify", run_id)
    (shared.folder / "keys.json").write_text(json.dumps(shared.done("keys", "list", "--public").json))
    shared.done("verify", second, "--keys", "keys.json")


def test_a_run_that_was_killed_is_recovered(shared: Shared) -> None:
    plan = shared.plan({"skill_id": "steady"}, {"skill_id": "steady"}, {"skill_id": "steady"})
    assert shared("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="before_dispatch:2").code == -9
    assert shared.done("ls", "--json").json[0]["status"] == "running"
    shared.done("recover", "--skills", SKILLS)
    assert shared.done("ls", "--json").json[0]["status"] == "completed"
    shared.done("verify", "last")
