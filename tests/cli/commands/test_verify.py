"""verify and export on the command line: verdicts apart, the first break located, exit codes 0, 1 and 4."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.cli.harness import SKILLS, Command, error_line
from tests.store.copies import copy_store


def test_the_four_verdicts_stand_apart(recorded: Command) -> None:
    done = recorded("verify", "last")
    assert done.code == 0
    lines = {line.split()[0]: line.split()[1] for line in done.out.splitlines() if line and line[0] != " "}
    assert (lines["integrity"], lines["completeness"], lines["authenticity"]) == ("holds", "holds", "holds")
    assert (lines["anchoring"], lines["derived"]) == ("absent", "agree")
    report = recorded("verify", "last", "--json").json
    assert report["integrity"] == report["completeness"] == report["authenticity"] == "holds"
    assert report["derived"] == {"verdict": "agree", "differences": []}


def test_what_is_absent_fails_only_when_it_is_required(recorded: Command, tmp_path: Path) -> None:
    assert recorded("verify", "last", "--require", "signature").code == 0
    anchored = recorded("verify", "last", "--require", "anchor")
    assert anchored.code == 1
    assert "anchor is absent" in anchored.out
    assert recorded("export", "last", "--to", tmp_path / "bundle").code == 0
    (tmp_path / "nobody.json").write_text("{}")
    stranger = recorded("verify", tmp_path / "bundle", "--keys", tmp_path / "nobody.json")
    assert stranger.code == 1  # who names keys wants one of them to have signed
    assert "signature is absent" in stranger.out
    assert recorded("verify", "last", "--keys", tmp_path / "nobody.json").code == 1
    for place in (tmp_path / "bundle", "last"):
        assert recorded("verify", place, "--keys", tmp_path / "bundle" / "keys.json").code == 0


def test_a_folder_is_verified_without_any_store(recorded: Command, tmp_path: Path) -> None:
    exported = recorded("export", "last", "--to", tmp_path / "bundle", "--json")
    assert exported.code == 0
    assert exported.json["sealed"] is True
    stranger = Command(tmp_path)
    done = stranger("verify", "./bundle", "--json")
    assert done.code == 0
    assert done.json["run_id"] == exported.json["run_id"]
    assert "derived" not in done.json
    assert not stranger.store.exists()
    missing = stranger("verify", "./nowhere")
    assert missing.code == 3
    assert "reenact export" in error_line(missing)


def test_one_flipped_byte_in_a_folder_is_found_and_located(recorded: Command, tmp_path: Path) -> None:
    assert recorded("export", "last", "--to", tmp_path / "bundle").code == 0
    journal = tmp_path / "bundle" / "journal.jsonl"
    data = bytearray(journal.read_bytes())
    at = data.index(b"ERR_TIMEOUT")
    data[at] ^= 1
    journal.write_bytes(data)
    done = recorded("verify", tmp_path / "bundle", "--json")
    assert done.code == 1
    where = done.json["first_break"]["where"]
    assert (where["file"], where["line"]) == ("journal.jsonl", data.count(b"\n", 0, at) + 1)
    text = recorded("verify", tmp_path / "bundle").out
    assert f"first break   journal.jsonl, commit {where['commit']}, line {where['line']}" in text


def test_a_changed_row_in_the_store_is_found_and_located(recorded: Command, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy_store(recorded.store, copy)
    with closing(sqlite3.connect(copy)) as target, target:
        target.execute("DROP TRIGGER commits_are_not_deleted")
        target.execute("DELETE FROM commits WHERE id = (SELECT min(id) + 2 FROM commits)")
    done = recorded("verify", "last", "--store", copy)
    assert done.code == 1
    assert "first break   commits, commit 3" in done.out
    assert "COMMIT_NUMBER: commit 3 is missing" in done.out


def test_a_changed_derived_table_is_reported_apart_from_the_evidence(recorded: Command, tmp_path: Path) -> None:
    copy_store(recorded.store, tmp_path / "copy.db")
    with sqlite3.connect(tmp_path / "copy.db") as db:
        db.execute("UPDATE traces SET step_id = 'other\x1b[2J' WHERE id = (SELECT min(id) FROM traces)")
    db.close()
    done = recorded("verify", "last", "--store", tmp_path / "copy.db")
    assert done.code == 1
    assert "integrity     holds" in done.out
    assert "derived       differ" in done.out
    assert "differs       traces, step 0" in done.out
    assert "\x1b" not in done.out


def test_a_run_that_was_killed_is_open_until_it_is_recovered(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "steady"}, {"skill_id": "steady"})
    assert reenact("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="before_seal").code == -signal.SIGKILL
    done = reenact("verify", "last")
    assert done.code == 4
    assert "completeness  open" in done.out
    exported = reenact("export", "last", "--to", "bundle")
    assert exported.code == 0
    assert "no seal yet" in exported.err
    assert reenact("verify", "./bundle").code == 4
    assert reenact("recover", "--skills", SKILLS).code == 0
    assert reenact("verify", "last").code == 0
