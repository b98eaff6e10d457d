"""A user's mistake is one line that says what is wrong and where, with the documented exit code. Never a traceback."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from reenact.store.sqlite.store import SqliteStore
from tests.cli.harness import SKILLS, Command, error_line
from tests.store.copies import back_up

HEAD = '{"plan_id": "p",\n "agent_id": "a", "steps": [\n'


def test_a_plan_that_is_not_there_is_named(reenact: Command) -> None:
    done = reenact("run", "nowhere.json")
    assert done.code == 2
    assert error_line(done) == "nowhere.json: No such file or directory; name a plan file"
    assert not reenact.store.exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"plan_id": "p",\n  "agent_id" "a"}', "(line 2, column 14)"),
        (HEAD + '  {"step_id": "a", "skill_id": "x", "colour": 1}]}', "(line 3, column 47)"),
        (HEAD + '  {"step_id": "a b", "skill_id": "x"}]}', "(line 3, column 15)"),
        ('{"plan_id": "p",\n "agent_id": 7, "steps": []}', "(line 2, column 14)"),
        ('{"plan_id": "p", "plan_id": "q"}', "(line 1, column 18)"),
        ("[]", "a plan is a JSON object"),
        ('{"plan_id": "p", "agent_id": "a", "steps": [],\n "context": {"$.steps": 1}}', "(line 2, column 25)"),
        ('{"plan_id": "p", "agent_id": "a", "steps": [],\n "`$.goal`": 1}', "(line 2, column 14)"),
    ],
    ids=["syntax", "unknown-field", "bad-step-id", "wrong-type", "duplicate-key", "no-object", "like-a-path", "quoted"],
)  # fmt: skip
def test_a_mistake_in_a_plan_is_told_with_line_and_column(reenact: Command, text: str, told: str) -> None:
    path = reenact.folder / "bad.json"
    path.write_text(text, encoding="utf-8")
    done = reenact("run", path)
    assert done.code == 2
    line = error_line(done)
    assert str(path) in line
    assert told in line
    assert not reenact.store.exists()


def test_a_secret_in_a_plan_is_refused_with_its_place_and_what_to_write_instead(reenact: Command) -> None:
    path = reenact.folder / "secret.json"
    path.write_text(
        HEAD + '  {"step_id": "a", "skill_id": "steady",\n   "parameters": {"api_key": "sk-live-0123456789abcdef"}}]}'
    )
    for command in ("run", "pin"):
        done = reenact(command, path, "--skills", SKILLS)
        assert done.code == 2, command
        line = error_line(done)
        assert '{"$secret": "NAME"}' in line
        assert "(line 4, column 30)" in line
        assert "sk-live" not in line


def test_runs_that_are_not_there_or_not_clear_are_told(recorded: Command) -> None:
    assert recorded("run", recorded.plan({"skill_id": "steady"}, name="more.json"), "--skills", SKILLS).code == 0
    ids = sorted(item["run_id"] for item in recorded("ls", "--json").json)
    common = next(ids[0][:size] for size in range(len(ids[0]), 0, -1) if ids[1].startswith(ids[0][:size]))
    for command in (["show"], ["verify"], ["export", "--to", "somewhere"], ["resume"]):
        unknown = recorded(command[0], "ffff", *command[1:])
        assert unknown.code == 2, command
        assert "no run 'ffff'" in error_line(unknown)
        unclear = recorded(command[0], common, *command[1:])
        assert unclear.code == 2, command
        assert "several runs" in error_line(unclear)
    assert recorded("show", ids[0][: len(common) + 1], "--json").json["run_id"] == ids[0]


def test_asking_for_what_was_recorded_never_makes_a_store(reenact: Command) -> None:
    listed = reenact("ls", "--json")
    assert (listed.code, listed.json) == (0, [])
    assert "there is no store at" in listed.err
    assert reenact("recover").code == 0
    for arguments in (["show", "last"], ["verify", "last"], ["export", "last", "--to", "out"], ["resume", "last"]):
        done = reenact(*arguments)
        assert done.code == 3, arguments
        assert "no store at" in error_line(done)
    assert list(reenact.folder.iterdir()) == []


def make_folder(path: Path) -> str:
    path.mkdir()
    return "is a folder"


def make_text(path: Path) -> str:
    path.write_text("this is not a database, whatever its name says\n" * 50)
    return "not a database"


def make_newer(path: Path) -> str:
    SqliteStore(str(path)).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 9999")
    return "upgrade reenact"


def make_foreign(path: Path) -> str:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE customers (name TEXT)")
    return "no store of reenact"


def make_damaged(path: Path) -> str:
    data = bytearray(path.read_bytes())
    data[4096:12288] = bytes(8192)
    path.write_bytes(data)
    return "is damaged"


@pytest.mark.parametrize("spoil", [make_folder, make_text, make_newer, make_foreign, make_damaged])
def test_a_store_that_cannot_be_used_is_told(recorded: Command, tmp_path: Path, spoil: object) -> None:
    path = tmp_path / "spoiled.db"
    if spoil is make_damaged:
        back_up(recorded.store, path)
    told = spoil(path)  # type: ignore[operator]
    plan = recorded.plan({"skill_id": "steady"}, name="spoiled.json")
    for arguments in (["ls"], ["verify", "last"], ["run", str(plan), "--skills", SKILLS]):
        done = recorded(*arguments, "--store", str(path))
        assert done.code == 3, (arguments, done)
        assert told in error_line(done), arguments


def test_a_store_that_is_read_only_can_be_read_and_not_run_on(recorded: Command, tmp_path: Path) -> None:
    path = tmp_path / "sealed.db"
    back_up(recorded.store, path)
    shutil.copy(f"{recorded.store}.key", f"{path}.key")
    data = bytearray(path.read_bytes())
    data[18] = 3  # only a newer SQLite may write to it: read-only for everybody, root too
    path.write_bytes(data)
    assert recorded("ls", "--store", path).code == 0
    assert recorded("verify", "last", "--store", path).code == 0
    plan = recorded.plan({"skill_id": "steady"}, name="read_only.json")
    done = recorded("run", plan, "--skills", SKILLS, "--store", path)
    assert done.code == 3
    assert "read-only" in error_line(done)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("absent.py", None, "absent.py: no such file of skills"),
        ("wrong.py", "def broken(:\n    pass\n", "wrong.py:1: SyntaxError"),
        ("raises.py", "import os\n\nraise RuntimeError('not today')\n", "raises.py:3: RuntimeError: not today"),
        ("empty.py", "x = 1\n", "declares no skill"),
    ],
)
def test_skills_that_cannot_be_loaded_are_told_with_file_and_line(
    reenact: Command, name: str, text: str | None, told: str
) -> None:
    path = reenact.folder / name
    if text is not None:
        path.write_text(text, encoding="utf-8")
    done = reenact("run", reenact.plan({"skill_id": "steady"}), "--skills", path)
    assert done.code == 2
    assert told in error_line(done)
    assert not reenact.store.exists()


def test_an_unknown_skill_in_a_plan_fails_its_step_and_names_it(reenact: Command) -> None:
    done = reenact("run", reenact.plan({"skill_id": "stedy"}), "--skills", SKILLS)
    assert done.code == 1
    assert "ERR_SKILL_NOT_FOUND  no skill stedy; did you mean steady?" in done.out
    far = reenact("run", reenact.plan({"skill_id": "walk_the_dog"}))
    assert "no skill walk_the_dog; `reenact skills` lists them, --skills FILE adds yours" in far.out


def test_what_a_gate_refuses_is_told_in_its_own_words_and_without_the_value(reenact: Command) -> None:
    done = reenact("run", reenact.plan({"skill_id": "steady", "parameters": {"text": 4711}}), "--skills", SKILLS)
    assert '/text: the value is not of type "string"' in done.out
    assert "4711" not in done.out + done.err + reenact("show", "last").out
    assert reenact("show", "last").out.count("Refused by gate") == 1
    secret = reenact.plan({"skill_id": "steady", "parameters": {"text": {"$secret": "NOBODY_SET_THIS"}}})
    assert (
        "the secret NOBODY_SET_THIS is not set; put it into the environment"
        in reenact("run", secret, "--skills", SKILLS).out
    )


def test_a_full_disk_behind_the_output_is_one_line(recorded: Command) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            recorded.argv("show", "last", "--json"), cwd=recorded.folder, env=recorded.env(), stdout=full,
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (3, "error: No space left on device [IO_ERROR]\n")


def test_options_that_make_no_sense_are_usage_errors(recorded: Command, tmp_path: Path) -> None:
    assert recorded("ls", "--status", "sleeping").code == 2
    assert recorded("export", "last").code == 2
    assert recorded("verify", "last", "--require", "luck").code == 2
    assert recorded("frobnicate").code == 2
    full = tmp_path / "full"
    full.mkdir()
    (full / "something").touch()
    done = recorded("export", "last", "--to", full)
    assert done.code == 2
    assert "is not empty" in error_line(done)
    assert [item.name for item in full.iterdir()] == ["something"]
    on_a_file = recorded("export", "last", "--to", full / "something" / "below")
    assert on_a_file.code == 3
    assert "below: cannot be written" in error_line(on_a_file)
