"""A store that is half broken, at night: the doctor sees it, says it in one line, and names a step that works."""

from __future__ import annotations

import shlex
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime
from reenact.store.owner import this_host
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import FixedClock
from tests.cli.harness import SKILLS, Command, Done
from tests.cli.sample_skills import steady
from tests.store.copies import copy_store
from tests.store.sqlite.powerless import reopen, shut
from tests.store.units import Run

ELSEWHERE = "elsewhere|1|1|x"
GONE = f"{this_host()}|4194305|1|x"
"""A process of this host, with a number that none has."""


@pytest.fixture
def ill(recorded: Command, tmp_path: Path) -> Iterator[Command]:
    """A copy of a healthy store with one completed run, to be made ill."""
    folder = tmp_path / "ill"
    folder.mkdir()
    SqliteStore(str(recorded.store)).close()  # its log goes into the file
    copy_store(recorded.store, folder / "store.db")
    yield Command(folder)
    reopen(folder)


def change(command: Command, *statements: str) -> None:
    """Somebody with a database program at hand."""
    with closing(sqlite3.connect(command.store, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def said(done: Done, verdict: str, subject: str) -> dict[str, Any]:
    """The first finding of that kind; the words and the step are for people, in one line each."""
    found = [finding for finding in done.json if (finding["verdict"], finding["subject"]) == (verdict, subject)]
    assert found, done.out
    for finding in done.json:
        assert "\n" not in finding["says"] + (finding["do"] or "")
        assert "\\n" not in finding["says"]
    return found[0]


def dangling(command: Command) -> str:
    """A run that a crash left behind."""
    plan = command.plan({"skill_id": "steady"}, {"skill_id": "steady"}, name="dangling.json")
    assert command("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="before_dispatch:2").code == -9
    run_id: str = command("ls", "--json").json[0]["run_id"]
    return run_id


def test_a_healthy_store_has_nothing_to_do(ill: Command) -> None:
    done = ill("doctor", "--json")
    assert done.code == 0
    assert {finding["verdict"] for finding in done.json} == {"ok"}


# -- the key ---------------------------------------------------------------------------------------------------------


def test_a_key_file_with_something_else_in_it_is_trouble(ill: Command) -> None:
    key = Path(f"{ill.store}.key")
    key.write_text("my notes")
    done = ill("doctor", "--json")
    assert done.code == 3
    assert "damaged" in said(done, "trouble", "key")["says"]
    key.unlink()
    assert "replace --lost" in said(ill("doctor", "--json"), "warning", "key")["do"]
    assert ill("run", ill.plan({"skill_id": "steady"}), "--skills", SKILLS).code == 4
    assert ill("keys", "replace", "--lost", "--reason", "it was overwritten").code == 0  # as it says
    assert ill("doctor").code == 0
    assert ill("run", ill.plan({"skill_id": "steady"}), "--skills", SKILLS).code == 0


def test_a_key_of_another_store_is_told_with_the_name_of_the_right_one(ill: Command, tmp_path: Path) -> None:
    with closing(sqlite3.connect(ill.store)) as db:
        ((kid,),) = db.execute("SELECT kid FROM keys").fetchall()
    other = SqliteStore(str(tmp_path / "other.db"))
    assert other.signing_key.kid != kid
    other.close()
    shutil.copy(tmp_path / "other.db.key", f"{ill.store}.key")
    done = ill("doctor", "--json")
    assert done.code == 4
    finding = said(done, "warning", "key")
    assert kid in finding["says"] + finding["do"]


def test_a_key_that_is_gone_after_a_rotation_is_named_with_the_runs_that_need_it(ill: Command) -> None:
    run_id = dangling(ill)
    rotated = ill("keys", "rotate", "--json").json
    assert ill("doctor", "--json").json[-1]["verdict"] == "ok"
    Path(f"{ill.store}.key").rename(ill.folder / "away")
    finding = said(ill("doctor", "--json"), "warning", "key")
    assert finding["says"] == f"{rotated['old_kid']} is not here, and 1 open run began with it: {run_id}"
    assert "replace --lost" in finding["do"]
    ill("recover", "--skills", SKILLS)
    assert ill("keys", "replace", "--lost", "--reason", "the disk died").code == 0  # as it says
    assert ill("doctor", "--json").json[-1]["verdict"] == "ok"
    assert ill("recover", "--skills", SKILLS).code == 0
    Path(f"{ill.store}.key.{rotated['new_kid']}").rename(ill.folder / "also away")
    Path(ill.folder / "away").rename(f"{ill.store}.key")
    assert "was lost and" in said(ill("doctor", "--json"), "trouble", "key")["says"]


def test_a_key_that_signs_and_is_gone_is_named_although_an_older_one_is_there(ill: Command) -> None:
    kid = ill("keys", "rotate", "--json").json["new_kid"]
    Path(f"{ill.store}.key.{kid}").rename(ill.folder / "away")
    finding = said(ill("doctor", "--json"), "warning", "key")
    assert finding["says"] == f"{kid} is not here, and it signs for new runs"


def test_a_key_that_may_not_be_read_is_trouble(ill: Command) -> None:
    Path(f"{ill.store}.key").chmod(0)
    done = ill("doctor", "--json", powerless=True)
    assert done.code == 3
    assert "chmod 600" in said(done, "trouble", "key")["do"]


def test_a_key_that_is_a_link_to_nothing_is_trouble(ill: Command) -> None:
    Path(f"{ill.store}.key").unlink()
    Path(f"{ill.store}.key").symlink_to(ill.folder / "unmounted" / "key")
    done = ill("doctor", "--json")
    assert done.code == 3
    Path(f"{ill.store}.key").unlink()
    assert "unmounted" in said(done, "trouble", "key")["says"]


@pytest.mark.parametrize("harm", ["empty", "text", "folder"])
def test_what_is_to_be_done_about_a_damaged_key_can_be_done_as_it_says(ill: Command, harm: str) -> None:
    key = Path(f"{ill.store}.key")
    if harm == "folder":
        key.unlink()
        key.mkdir()
    else:
        key.write_text("my notes" if harm == "text" else "")
    do = said(ill("doctor", "--json"), "trouble", "key")["do"]
    move, replace = (shlex.split(command) for command in do.split("`")[1::2])
    subprocess.run(move, check=True)
    assert replace[0] == "reenact"
    assert ill(*replace[1:]).code == 0
    assert ill("doctor").code == 0
    assert ill("run", ill.plan({"skill_id": "steady"}), "--skills", SKILLS).code == 0


def test_a_folder_in_the_place_of_a_key_is_told_by_its_name(ill: Command) -> None:
    """Containers make one where the file that they mount is not there."""
    key = Path(f"{ill.store}.key")
    key.unlink()
    key.mkdir()
    done = ill("doctor", "--json")
    assert done.code == 3
    assert f"{key} is a folder" in said(done, "trouble", "key")["says"]
    done = ill("run", ill.plan({"skill_id": "steady"}), "--skills", SKILLS)
    assert done.code == 3
    assert f"{key} is a folder" in done.err


def test_a_key_that_others_may_read_is_trouble(ill: Command) -> None:
    Path(f"{ill.store}.key").chmod(0o644)
    done = ill("doctor", "--json")
    assert done.code == 3
    assert "chmod 600" in said(done, "trouble", "key")["do"]


# -- the schema ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["commits", "payloads", "runs", "traces", "keys", "idempotency", "kv", "spending"])
def test_a_table_that_is_gone_is_trouble(ill: Command, table: str) -> None:
    change(ill, f"DROP TABLE {table}")
    done = ill("doctor", "--json")
    assert done.code == 3
    assert table in said(done, "trouble", "schema")["says"]


@pytest.mark.parametrize("kind", ["trigger", "index"])
def test_a_guard_or_an_index_that_is_gone_is_told_with_what_puts_it_back(ill: Command, kind: str) -> None:
    with closing(sqlite3.connect(ill.store)) as db:
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = ? AND sql > ''", (kind,))]
    assert names
    change(ill, *(f"DROP {kind} {name}" for name in names))
    done = ill("doctor", "--json")
    assert done.code == 4
    findings = [finding for finding in done.json if finding["subject"] == "schema" and finding["verdict"] == "warning"]
    assert len(findings) == len(names)
    for finding in findings:
        program, path, sql = shlex.split(finding["do"].partition(": ")[2])
        assert (program, path) == ("sqlite3", str(ill.store))
        change(ill, sql)
    assert ill("doctor").code == 0


def test_a_guard_that_guards_nothing_any_more_is_told(ill: Command) -> None:
    change(
        ill,
        "DROP TRIGGER commits_are_not_deleted",
        "CREATE TRIGGER commits_are_not_deleted BEFORE DELETE ON commits BEGIN SELECT 1; END",
    )
    done = ill("doctor", "--json")
    assert done.code == 4
    assert "commits_are_not_deleted" in said(done, "warning", "schema")["says"]


def test_a_trigger_that_somebody_added_is_told(ill: Command) -> None:
    change(ill, "CREATE TRIGGER spy AFTER INSERT ON payloads BEGIN DELETE FROM traces; END")
    done = ill("doctor", "--json")
    assert done.code == 4
    assert "spy" in said(done, "warning", "schema")["says"]


def test_a_database_of_something_else_is_trouble(reenact: Command) -> None:
    change(reenact, "CREATE TABLE customers (name TEXT)")
    done = reenact("doctor", "--json")
    assert done.code == 3
    assert "no store of reenact" in said(done, "trouble", "store")["says"]


# -- what was written ------------------------------------------------------------------------------------------------


def unguarded(command: Command, *statements: str) -> None:
    """The guards off, the change made, the guards on again: nothing but the rows is another."""
    with closing(sqlite3.connect(command.store, isolation_level=None)) as db:
        guards = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            db.execute(statement)
        for _, sql in guards:
            db.execute(sql)


LAST_RUN = "(SELECT max(run_no) FROM runs)"


@pytest.mark.parametrize(
    "harm",
    [
        f"UPDATE commits SET body = (SELECT body FROM commits ORDER BY id LIMIT 1) WHERE id >> 24 = {LAST_RUN}",
        f"UPDATE commits SET body = X'0070616464' WHERE id >> 24 = {LAST_RUN}",
        f"UPDATE commits SET body = X'02' WHERE id >> 24 = {LAST_RUN}",
        f"UPDATE commits SET body = 'text' WHERE id >> 24 = {LAST_RUN}",
        f"UPDATE commits SET digest = zeroblob(32) WHERE id >> 24 = {LAST_RUN}",
        f"DELETE FROM commits WHERE id = ({LAST_RUN} << 24) + 1",
        f"DELETE FROM commits WHERE id >> 24 = {LAST_RUN}",
        f"UPDATE payloads SET body = X'00' || zeroblob(40) WHERE id >> 36 = {LAST_RUN}",
        f"UPDATE payloads SET body = X'03' || zeroblob(90) WHERE id >> 36 = {LAST_RUN}",
    ],
)
def test_a_journal_that_was_written_over_is_trouble_while_its_run_is_open(ill: Command, harm: str) -> None:
    run_id = dangling(ill)
    assert ill("doctor").code == 4
    unguarded(ill, harm)
    done = ill("doctor", "--json")
    assert done.code == 3
    finding = said(done, "trouble", f"run {run_id}")
    assert f"reenact verify {run_id}" in finding["do"]
    assert ill(*shlex.split(finding["do"].partition("`")[2].partition("`")[0])[1:]).code == 1


def test_a_run_that_the_table_of_runs_has_lost_is_trouble(ill: Command) -> None:
    change(ill, "DELETE FROM runs")
    done = ill("doctor", "--json")
    assert done.code == 3
    assert "no row" in said(done, "trouble", "runs")["says"]


def test_a_run_that_is_called_ended_without_having_ended_is_told(ill: Command) -> None:
    run_id = dangling(ill)
    change(ill, f"UPDATE runs SET status = 'completed' WHERE run_id = '{run_id}'")
    done = ill("doctor", "--json")
    assert done.code == 4
    assert "no seal" in said(done, "warning", f"run {run_id}")["says"]


@pytest.mark.parametrize("part", ["runs_by_status", "commits", "traces", "sqlite_master"])
def test_damaged_pages_are_told_in_one_line(ill: Command, part: str) -> None:
    with closing(sqlite3.connect(ill.store)) as db:
        rows = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (part,)).fetchall()
    page = rows[0][0] if rows else 1
    with ill.store.open("r+b") as file:
        file.seek((page - 1) * 4096 + (100 if page == 1 else 0))
        file.write(b"\xff" * 64)
    done = ill("doctor", "--json")
    assert (done.code, done.err) == (3, "")
    assert next(finding["subject"] for finding in done.json if finding["verdict"] == "trouble") in ("pages", "store")
    assert "\n" not in "".join(finding["says"] for finding in done.json)
    assert "\\n" not in ill("doctor").out


# -- runs ------------------------------------------------------------------------------------------------------------


def test_a_session_that_lost_its_host_gets_a_step_that_ends_it(ill: Command) -> None:
    runtime = Runtime(str(ill.store), skills=[steady])
    with pytest.raises(KeyboardInterrupt), runtime.session() as session:
        session.call("steady", {})
        raise KeyboardInterrupt
    runtime.close()
    done = ill("doctor", "--json")
    assert done.code == 4
    finding = said(done, "warning", f"run {session.run_id}")
    assert "session(resume=" in finding["do"]
    assert "reenact resume" not in finding["do"]
    command = finding["do"].partition("`")[2].partition("`")[0].replace("…", "over")
    assert ill(*shlex.split(command)[1:]).code == 0
    assert ill("doctor").code == 0


def test_what_it_says_to_type_names_the_store_that_it_was_given(ill: Command) -> None:
    run_id = dangling(ill)
    store = str(ill.store)
    done = ill("doctor", "--json", "--store", store, REENACT_STORE="/nowhere/else.db")
    command = said(done, "warning", f"run {run_id}")["do"].partition("`")[2].partition("`")[0]
    words = shlex.split(command)[1:]
    assert ill(*words, "--skills", SKILLS, REENACT_STORE="/nowhere/else.db").code == 0
    assert ill("doctor").code == 0


def test_thousands_of_runs_that_nobody_works_on_are_counted_and_a_few_are_named(ill: Command) -> None:
    dangling(ill)
    store = SqliteStore(str(ill.store))
    units = [Run(f"r{n}").unit(status="running" if n % 3 else "waiting")[0] for n in range(3000)]
    assert not any(isinstance(held, Exception) for held in store.append_many([(unit, None, GONE) for unit in units]))
    store.close()
    done = ill("doctor")
    assert len(done.out.splitlines()) < 200
    assert "1991 more: nobody works on it" in done.out
    assert "990 more: waits for a person" in done.out
    assert "reenact recover" in done.out
    assert "reenact ls --waiting" in done.out


# -- around the file -------------------------------------------------------------------------------------------------


def test_a_clock_that_is_behind_the_last_commit_is_told(ill: Command) -> None:
    from reenact.store.doctor.examine import examine

    late = FixedClock(start_ms=1_000_000_000_000)
    findings = {finding.subject: finding for finding in examine(str(ill.store), late)}
    assert findings["clock"].verdict == "warning"
    assert "has not come yet" in findings["clock"].says


def test_a_lease_that_ends_later_than_any_lease_is_told(ill: Command) -> None:
    run_id = dangling(ill)
    change(ill, f"UPDATE runs SET owner = '{ELSEWHERE}', expires_ms = 9000000000000 WHERE run_id = '{run_id}'")
    done = ill("doctor", "--json")
    assert done.code == 4
    assert "2255" in said(done, "warning", f"run {run_id}")["says"]


def test_a_log_that_was_taken_away_is_told_and_stays_told(ill: Command) -> None:
    """Whoever asked the doctor first, and then recovered, went on without those commits, and nobody said a word."""
    dangling(ill)
    Path(f"{ill.store}-wal").unlink()
    assert Path(f"{ill.store}-shm").exists()
    for _ in range(2):
        done = ill("doctor", "--json")
        assert done.code == 3
        assert "-wal was taken away" in said(done, "trouble", "store")["says"]
    assert ill("recover").code == 3


def test_a_store_that_was_moved_without_its_log_is_no_new_one(reenact: Command, tmp_path: Path) -> None:
    reenact.store.touch()
    assert reenact("doctor").code == 0
    key = SqliteStore(str(tmp_path / "other.db"))
    assert key.signing_key.kid
    key.close()
    shutil.copy(tmp_path / "other.db.key", f"{reenact.store}.key")
    done = reenact("doctor", "--json")
    assert done.code == 4
    assert "-wal" in said(done, "warning", "store")["do"]


def test_a_log_that_only_another_user_may_write_is_told(ill: Command) -> None:
    dangling(ill)
    for suffix in ("-wal", "-shm"):
        Path(f"{ill.store}{suffix}").chmod(0o444)
    done = ill("doctor", "--json", powerless=True)
    assert done.code == 4
    assert "store.db-wal" in said(done, "warning", "permissions")["says"]


def test_a_store_that_may_not_be_read_is_trouble(ill: Command) -> None:
    ill.store.chmod(0)
    done = ill("doctor", "--json", powerless=True)
    assert done.code == 3
    assert done.err == ""
    assert "permission" in said(done, "trouble", "store")["says"]


def test_a_folder_that_may_not_be_entered_is_trouble(ill: Command, tmp_path: Path) -> None:
    outside = Command(tmp_path)
    ill.folder.chmod(0)
    done = outside("doctor", "--json", "--store", ill.store, powerless=True)
    ill.folder.chmod(0o755)
    assert (done.code, done.err) == (3, "")
    assert "ermission" in said(done, "trouble", "store")["says"]


@pytest.mark.parametrize(("free", "code", "verdict"), [(100_000, 3, "trouble"), (50_000_000, 4, "warning")])
def test_a_disk_that_is_nearly_full_is_told(
    ill: Command, monkeypatch: pytest.MonkeyPatch, free: int, code: int, verdict: str
) -> None:
    from reenact.store.sqlite.doctor import surroundings

    usage = shutil.disk_usage(ill.folder)._replace(free=free)
    monkeypatch.setattr(surroundings.shutil, "disk_usage", lambda _: usage)
    findings = {finding.subject: finding for finding in surroundings.look_around(Path(ill.store), {})}
    assert findings["disk"].verdict == verdict
    assert "free" in str(findings["disk"].do)


def test_a_store_on_a_network_file_system_is_told(tmp_path: Path) -> None:
    from reenact.store.sqlite.doctor.surroundings import network

    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
        "40 22 0:35 / /srv/my\\040share rw,relatime shared:1 - nfs4 filer:/share rw,vers=4.2\n"
        "41 40 8:2 / /srv/my\\040share/local rw - xfs /dev/sdb1 rw\n"
    )
    (finding,) = network(Path("/srv/my share/agents/store.db"), mounts)
    assert finding.verdict == "warning"
    assert "nfs4" in finding.says
    assert list(network(Path("/srv/my share/local/store.db"), mounts)) == []
    assert list(network(Path("/srv/store.db"), mounts)) == []
    assert list(network(Path("/srv/store.db"), tmp_path / "not told here")) == []


def test_looking_changes_nothing(ill: Command) -> None:
    before = {path.name: path.read_bytes() for path in ill.folder.iterdir() if not path.name.endswith(("-shm", "-wal"))}
    assert ill("doctor").code == 0
    after = {path.name: path.read_bytes() for path in ill.folder.iterdir() if not path.name.endswith(("-shm", "-wal"))}
    assert after == before


def test_a_folder_that_is_only_readable_is_told(ill: Command) -> None:
    shut(ill.folder)
    Path(f"{ill.store}.key").chmod(0o400)
    done = ill("doctor", "--json", powerless=True)
    assert done.code == 4
    assert "cannot be written" in said(done, "warning", "permissions")["says"]
