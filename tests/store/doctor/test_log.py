"""The doctor holds the log against the seals: what contradicts it is trouble, told in one line with what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reenact.store.sqlite.store import SqliteStore
from tests.cli.harness import SKILLS, Command
from tests.store.copies import copy_store
from tests.store.sqlite.powerless import reopen, shut

GUARDS = "SELECT name FROM sqlite_master WHERE type = 'trigger'"


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three sealed runs, all in its log, and a signed head."""
    command = Command(tmp_path_factory.mktemp("logged"))
    plan = command.plan({"skill_id": "steady"})
    for _ in range(3):
        assert command("run", plan, "--skills", SKILLS).code == 0
    assert command("log", "checkpoint").code == 0
    SqliteStore(str(command.store)).close()
    return Path(command.store)


@pytest.fixture
def ill(logged: Path, tmp_path: Path) -> Iterator[Command]:
    copy_store(logged, tmp_path / "store.db")
    yield Command(tmp_path)
    reopen(tmp_path)


def change(command: Command, statement: str) -> None:
    with closing(sqlite3.connect(command.store, isolation_level=None)) as db:
        for (name,) in db.execute(GUARDS).fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute(statement)


def said(command: Command) -> tuple[int, list[tuple[str, str]]]:
    done = command("doctor", "--json")
    return done.code, [(each["verdict"], each["says"]) for each in done.json if each["subject"] == "seals"]


def test_a_log_that_agrees_is_told_with_what_was_looked_at(ill: Command) -> None:
    assert said(ill) == (0, [("ok", "3 seals, the newest 3 of 3 in the log and its head agree")])


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE log_nodes SET hash = zeroblob(32) WHERE id = 1", "seal 2 of the store is not the one that the log"),
        ("UPDATE log_checkpoints SET root = zeroblob(32)", "the head that was signed is not that of the seals"),
        ("UPDATE log_checkpoints SET signature = zeroblob(64)", "has not signed the newest head"),
        ("UPDATE log_checkpoints SET size = 9", "its last seals were taken out"),
        ("DELETE FROM seals WHERE id = 3", "its last seals were taken out"),
        ("UPDATE seals SET seal_digest = '" + "a" * 64 + "' WHERE id = 2", "is not the one that run"),
        ("DELETE FROM log_nodes WHERE id = 1", "log_nodes has no row for node 1 of level 0"),
        ("INSERT INTO log_contradictions VALUES (1, 'w.example', x'00')", "w.example holds a head that is none"),
    ],
)  # fmt: skip
def test_a_log_that_contradicts_its_seals_is_trouble(statement: str, words: str, ill: Command) -> None:
    change(ill, statement)
    shut(Path(ill.store).parent)
    code, found = said(ill)
    assert code == 3
    assert [verdict for verdict, says in found if words in says] == ["trouble"], found


def test_what_stands_before_the_newest_is_not_read_again(ill: Command) -> None:
    """A store of many runs is looked at in the time of a small one."""
    from reenact.store.log.past import compare_newest
    from reenact.store.sqlite.doctor.examination import SqliteExamination

    with SqliteExamination(str(ill.store)) as looked:
        looked.look_from_outside()
        list(looked.look_inside())
        log = looked.seal_log()
        assert [compare_newest(log, most).checked for most in (1, 2, 4)] == [1, 3, 3]
