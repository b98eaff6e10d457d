"""`reenact keys`: list, make, rotate, replace."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.harness import SKILLS, Command, error_line


@pytest.fixture
def signed(reenact: Command) -> Command:
    """A store with one run."""
    assert reenact("run", reenact.plan({"skill_id": "steady"}), "--skills", SKILLS).code == 0
    return reenact


def listed(command: Command, **more: str) -> list[dict[str, object]]:
    return list(command("keys", "list", "--json", **more).json)


def test_what_signs_is_listed_with_its_place_and_the_runs_that_need_it(signed: Command) -> None:
    (line,) = listed(signed)
    assert (line["state"], line["where"], line["open_runs"]) == ("signs", f"{signed.store}.key", [])
    plan = signed.plan({"skill_id": "steady"}, {"skill_id": "steady"}, name="killed.json")
    assert signed("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="before_dispatch:2").code == -9
    assert len(str(listed(signed)[0]["open_runs"])) > 30
    Path(f"{signed.store}.key").rename(signed.folder / "away")
    done = signed("keys", "list")
    assert done.code == 4
    assert "NOT HERE" in done.out
    assert "needed by 1 open run" in done.out


def test_a_rotation_is_recorded_and_both_keys_verify(signed: Command, tmp_path: Path) -> None:
    (old,) = listed(signed)
    done = signed("keys", "rotate", "--who", "ada")
    assert done.code == 0
    assert [(line["kid"] == old["kid"], line["state"]) for line in listed(signed)] == [
        (True, "older"), (False, "signs")
    ]  # fmt: skip
    assert signed("run", signed.plan({"skill_id": "steady"}), "--skills", SKILLS).code == 0
    (tmp_path / "old.json").write_text(json.dumps({old["kid"]: old["public_key"]}))
    assert signed("verify", "last", "--keys", tmp_path / "old.json").code == 0


def test_a_lost_key_is_replaced_only_when_it_is_said_to_be_lost(signed: Command) -> None:
    assert error_line(signed("keys", "replace", "--reason", "x")).startswith("a key that is here is rotated")
    assert signed("keys", "replace", "--lost").code == 2
    assert "no key is lost" in error_line(signed("keys", "replace", "--lost", "--reason", "x"))
    Path(f"{signed.store}.key").unlink()
    assert signed("keys", "rotate").code == 4
    done = signed("keys", "replace", "--lost", "--reason", "the disk died", "--json")
    assert done.code == 0
    assert [line["state"] for line in listed(signed)] == ["replaced", "signs"]
    assert signed("run", signed.plan({"skill_id": "steady"}), "--skills", SKILLS).code == 0
    assert signed("verify", "last").code == 0


def test_a_run_that_is_left_without_a_key_is_not_passed_over(reenact: Command) -> None:
    """It could not be read, say: whoever replaces the key learns by the exit code that a run still waits for one."""
    plan = reenact.plan({"skill_id": "steady"}, {"skill_id": "steady"})
    reenact("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="after_commit:2")
    Path(f"{reenact.store}.key").unlink()
    with closing(sqlite3.connect(reenact.store, isolation_level=None)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute("UPDATE commits SET body = x'00' WHERE id = (SELECT max(id) FROM commits)")
    done = reenact("keys", "replace", "--lost", "--reason", "the disk died", "--json")
    assert len(done.json["left_out"]) == 1
    assert done.code == 4


def test_a_key_is_made_in_a_new_file(reenact: Command, tmp_path: Path) -> None:
    done = reenact("keys", "make", tmp_path / "a.pem", "--json")
    assert done.code == 0
    assert (tmp_path / "a.pem").stat().st_mode & 0o777 == 0o600
    assert reenact("keys", "make", tmp_path / "a.pem").code == 2
    assert reenact("keys", "make").code == 2
    plan = reenact.plan({"skill_id": "steady"})
    assert reenact("run", plan, "--skills", SKILLS, REENACT_SIGNING_KEY=str(tmp_path / "a.pem")).code == 0
    assert listed(reenact, REENACT_SIGNING_KEY=str(tmp_path / "a.pem"))[0]["kid"] == done.json["kid"]


@pytest.mark.parametrize("action", ["list", "rotate", "replace"])
def test_no_store_is_made_to_look_at_its_keys(reenact: Command, action: str) -> None:
    assert reenact("keys", action, "--lost", "--reason", "x").code == 3
    assert not reenact.store.exists()
