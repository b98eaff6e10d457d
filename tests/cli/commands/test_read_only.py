"""Evidence in a folder that cannot be written: what only reads works there, what writes says why not."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reenact.store.sqlite.migrations import latest, migrations
from reenact.store.sqlite.store import SqliteStore
from tests.cli.harness import SKILLS, Command, error_line
from tests.store.copies import copy_store
from tests.store.sqlite.powerless import contents, reopen, shut

READING = {
    "ls": ["ls", "--json"],
    "show": ["show", "last", "--values"],
    "verify": ["verify", "last", "--require", "signature"],
    "export": ["export", "last", "--to", "../bundle"],
    "replay": ["replay", "last", "--mode", "mock_replay"],
    "dry run": ["replay", "last", "--mode", "dry_run", "--skills", SKILLS],
    "diff": ["diff", "last", "last"],
    "metrics": ["metrics"],
}
WRITING = {
    "run": ["run", "../plan.json", "--skills", SKILLS],
    "resume": ["resume", "last", "--skills", SKILLS],
    "recover": ["recover", "--skills", SKILLS],
    "approve": ["approve", "last", "--reason", "x"],
    "cancel": ["cancel", "last", "--reason", "x"],
    "resolve": ["resolve", "last", "s0", "--failed", "--reason", "x"],
    "erase": ["erase", "last", "--reason", "x", "--yes"],
    "save": ["replay", "last", "--save"],
    "full replay": ["replay", "last", "--mode", "full_replay", "--skills", SKILLS],
    "fork": ["fork", "last", "--at", "s0", "--skills", SKILLS],
}


@pytest.fixture
def archive(recorded: Command, tmp_path: Path) -> Iterator[Command]:
    """A copy of a store with one run, in a folder of its own."""
    folder = tmp_path / "archive"
    folder.mkdir()
    SqliteStore(str(recorded.store)).close()  # its log goes into the file
    copy_store(recorded.store, folder / "store.db")
    shutil.copy(recorded.folder / "plan.json", tmp_path / "plan.json")
    yield Command(folder)
    reopen(folder)


def with_its_log(archive: Command) -> None:
    """As a process leaves it that ended without closing it: a second run is in the log alone."""
    assert archive("run", "../plan.json", "--skills", SKILLS).code == 0
    assert Path(f"{archive.store}-wal").stat().st_size > 0
    assert Path(f"{archive.store}-shm").exists()


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("before", [lambda _: None, with_its_log], ids=["clean", "with its log"])
def test_what_only_reads_works_and_leaves_no_trace(
    archive: Command, command: str, before: Callable[[Command], None]
) -> None:
    before(archive)
    at_first = contents(archive.folder)
    shut(archive.folder)
    (archive.folder / "store.db.key").chmod(0)
    done = archive(*READING[command], powerless=True)
    reopen(archive.folder)
    assert (done.code, done.err) == (0, "")
    assert contents(archive.folder) == at_first


def test_what_the_log_holds_is_read(archive: Command) -> None:
    with_its_log(archive)
    shut(archive.folder)
    assert len(archive("ls", "--json", powerless=True).json) == 2


def test_an_empty_log_stands_in_nobodys_way(archive: Command) -> None:
    Path(f"{archive.store}-wal").touch()
    shut(archive.folder)
    assert archive("verify", "last", powerless=True).code == 0


@pytest.mark.parametrize("command", [*READING, "doctor"])
def test_a_log_without_its_index_is_not_passed_over(archive: Command, command: str) -> None:
    """Without the log the store reads well, and lacks its last commits."""
    with_its_log(archive)
    Path(f"{archive.store}-shm").unlink()
    shut(archive.folder)
    done = archive(*READING.get(command, ["doctor"]), powerless=True)
    assert done.code == 3
    told = done.out if command == "doctor" else error_line(done)
    assert "copy both into a folder that can be written" in told


def test_a_doctor_says_what_can_be_done_with_it(archive: Command) -> None:
    shut(archive.folder)
    done = archive("doctor", "--json", powerless=True)
    verdicts = {finding["subject"]: finding["verdict"] for finding in done.json}
    verdicts = {subject: verdict for subject, verdict in verdicts.items() if not subject.startswith("shell")}
    assert done.code == 4
    assert verdicts == {
        "store": "ok",
        "schema": "ok",
        "pages": "ok",
        "clock": "ok",
        "seals": "ok",
        "journal": "ok",
        "runs": "ok",
        "disk": "ok",
        "permissions": "warning",
        "key": "ok",
        "encryption": "ok",
    }


@pytest.mark.parametrize("command", WRITING)
def test_what_writes_says_that_it_cannot(archive: Command, command: str) -> None:
    at_first = contents(archive.folder)
    shut(archive.folder)
    done = archive(*WRITING[command], powerless=True)
    assert done.code == 3
    assert "store.db: it is read-only; make it writable or name another store" in error_line(done)
    assert contents(archive.folder) == at_first


def test_an_empty_log_does_not_change_what_is_said_about_writing(archive: Command) -> None:
    Path(f"{archive.store}-wal").touch()
    shut(archive.folder)
    done = archive("recover", powerless=True)
    assert done.code == 3
    assert "it is read-only" in error_line(done)


def test_a_file_that_cannot_be_written_in_a_folder_that_can(archive: Command) -> None:
    archive.store.chmod(0o444)
    assert archive("verify", "last", powerless=True).code == 0
    done = archive("run", "../plan.json", "--skills", SKILLS, powerless=True)
    assert done.code == 3
    assert "it is read-only" in error_line(done)


def test_a_file_that_cannot_even_be_read(archive: Command) -> None:
    archive.store.chmod(0)
    done = archive("ls", powerless=True)
    assert done.code == 3
    assert "it cannot be opened; check the path and its permissions" in error_line(done)


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (migrations()[0][0] - 1, f"this version of reenact reads {migrations()[0][0]} and later"),
        (latest() + 1, "upgrade reenact"),
        (0, "is no store of reenact"),
    ],
)
def test_another_schema_is_told(archive: Command, version: int, told: str) -> None:
    with closing(sqlite3.connect(archive.store)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    shut(archive.folder)
    done = archive("ls", powerless=True)
    assert done.code == 3
    assert told in error_line(done)
