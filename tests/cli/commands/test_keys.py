"""`reenact keys`: list, show, make, rotate, replace, trust."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact.verify.signed.signed_note import read_vkey
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


def shown(command: Command) -> list[dict[str, str]]:
    return list(command("keys", "show", "--json").json)


def test_a_key_is_shown_as_others_need_it(signed: Command) -> None:
    (key,) = shown(signed)
    (line,) = listed(signed)
    assert (key["key"], key["public_key"]) == (line["kid"], line["public_key"])
    assert read_vkey(key["verifier_key"]).name.startswith("reenact/")
    told = signed("keys", "show").out
    assert f"verifier key  {key['verifier_key']}\n" in told
    assert "signs new runs: capabilities, seals, run checkpoints" in told


def test_a_new_key_is_its_owners_alone_and_never_overwritten(reenact: Command) -> None:
    file = reenact.folder / "k.pem"
    made = reenact("keys", "new", file, "--json").json
    assert file.stat().st_mode & 0o777 == 0o600
    assert reenact("keys", "show", file, "--json").json[0]["public_key"] == made["public_key"]
    assert "nothing is overwritten" in error_line(reenact("keys", "new", file))
    assert "keys new FILE" in error_line(reenact("keys", "new"))
    assert "is not there" in error_line(reenact("keys", "show", reenact.folder / "absent.pem"))


def test_whose_word_it_is_stands_in_the_verdict(signed: Command, tmp_path: Path) -> None:
    (key,) = shown(signed)
    assert signed("export", "last", "--to", tmp_path / "bundle").code == 0
    own = f"own key {key['key']}, which nobody vouched for"
    for target, whose in (("last", "store's"), (tmp_path / "bundle", "folder's")):
        assert f"authenticity  holds   by the {whose} {own}" in signed("verify", target).out
        assert signed("verify", target, "--require", "trust").code == 1
        assert signed("verify", target, "--require", "signature").code == 0
    done = signed("keys", "trust", key["verifier_key"], "--name", "acme billing")
    assert done.code == 0
    assert (signed.folder / "config" / "reenact" / "trusted_keys").stat().st_mode & 0o777 == 0o600
    for target in ("last", tmp_path / "bundle"):
        done = signed("verify", target, "--require", "trust")
        assert (done.code, f'signed by {key["key"]} (trusted as "acme billing")' in done.out) == (0, True)
        signature = signed("verify", target, "--json").json["signature"]
        assert (signature["covers"], signature["by"], signature["trusted_as"]) == ("run", "trusted_key", "acme billing")


def test_a_key_is_trusted_for_what_it_is_trusted_for(signed: Command, tmp_path: Path) -> None:
    (key,) = shown(signed)
    for purposes, code in (("seals", 1), ("capabilities", 1), ("log", 1), ("seals,capabilities", 0)):
        trusted = tmp_path / purposes
        assert signed("keys", "trust", key["public_key"], "--name", "a", "--for", purposes, "--keys", trusted).code == 0
        done = signed("verify", "last", "--keys", trusted)
        assert done.code == code, done.out
    other = tmp_path / "other"
    raw = read_vkey(key["verifier_key"])
    elsewhere = str(raw._replace(name="reenact/019b76da-a800-7000-8000-000000000001"))
    assert signed("keys", "trust", elsewhere, "--name", "a", "--keys", other).code == 0
    done = signed("verify", "last", "--keys", other)
    assert (done.code, "none of the keys that are trusted for it" in done.out) == (1, True)


def test_a_key_of_one_store_does_not_speak_for_the_log_of_another(signed: Command, tmp_path: Path) -> None:
    (key,) = shown(signed)
    assert signed("log", "checkpoint").code == 0
    assert signed("export", "last", "--to", tmp_path / "bundle").code == 0
    here, unbelieved = read_vkey(key["verifier_key"]), "signed by no key that is believed"
    elsewhere = here._replace(name="reenact/019b76da-a800-7000-8000-000000000001")
    for number, (trusted, counts) in enumerate(((here, True), (key["public_key"], True), (elsewhere, False))):
        keys = tmp_path / f"keys-{number}"
        assert signed("keys", "trust", str(trusted), "--name", "a", "--for", "log", "--keys", keys).code == 0
        proof = tmp_path / "bundle" / "seal.tlog-proof"
        done = signed("log", "check", proof, "--bundle", tmp_path / "bundle", "--keys", keys)
        assert (unbelieved not in done.out) is counts, done.out + done.err


def test_who_is_trusted_stays_so_after_a_rotation_and_older_runs_stay_valid(signed: Command) -> None:
    (old,) = shown(signed)
    first = signed("ls", "--json").json[0]["run_id"]
    assert signed("keys", "trust", old["verifier_key"], "--name", "acme").code == 0
    assert signed("keys", "rotate").code == 0
    assert signed("run", signed.plan({"skill_id": "steady"}), "--skills", SKILLS).code == 0
    new = next(key["key"] for key in shown(signed) if key["used_for"].startswith("signs new runs"))
    assert new != old["key"]
    assert f'signed by {new} (trusted as "acme")' in signed("verify", "last").out
    assert f'signed by {old["key"]} (trusted as "acme")' in signed("verify", first).out


def test_a_list_that_cannot_be_believed_is_told(signed: Command, tmp_path: Path) -> None:
    (key,) = shown(signed)
    trusted = signed.folder / "config" / "reenact" / "trusted_keys"
    assert signed("keys", "trust", key["verifier_key"], "--name", "acme").code == 0
    again = signed("keys", "trust", key["verifier_key"], "--name", "us")
    assert (again.code, "already" in error_line(again)) == (2, True)
    trusted.write_text("# ours\nacme  results  x\n")
    done = signed("verify", "last")
    assert (done.code, f"{trusted}, line 2: " in error_line(done)) == (2, True)
    assert signed("keys", "trust", key["verifier_key"], "--name", "acme").code == 2
    trusted.chmod(0o666)
    assert "can be written by others" in error_line(signed("verify", "last"))
    assert signed("verify", "last", "--keys", tmp_path / "absent").code == 3
    for words in (
        ["KEY"],
        ["KEY", "--name", "a\tb"],
        [],
        ["--name", "a"],
        [key["public_key"], "--name", "a", "--for", "x"],
    ):
        assert signed("keys", "trust", *words).code == 2, words
