"""Rows are taken from under open calls and answered keys: one line with a code, no traceback."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import DamagedRecord, ReenactError
from reenact.runtime import crash_points
from tests.cli.harness import Command

SKILLS = """
from reenact import skill

@skill("wire", version="1.0.0", tool_class="write", in_doubt="hold")
def wire(to: str) -> dict[str, str]:
    return {"wired": to}
"""


@skill("wire", version="1.0.0", tool_class="write", in_doubt="hold")
def wire(to: str) -> dict[str, str]:
    return {"wired": to}


EFFECT = 4
"""The commit with what the call returned."""


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        assert db.execute(statement).rowcount == 1
        for _, sql in triggers:
            db.execute(sql)


def wired(path: Path, session_id: str, key: str) -> None:
    runtime = Runtime(str(path), skills=[wire])
    try:
        with runtime.session(id=session_id, agent_id="clerk") as session:
            session.call("wire", {"to": "Ada"}, idempotency_key=key)
    finally:
        runtime.close()


def cut_off(path: Path) -> str:
    """A session whose process dies when its call was sent."""
    child = os.fork()
    if child == 0:
        crash_points.arm("after_dispatch")
        try:
            wired(path, "till", "k-1")
        finally:
            os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    with closing(sqlite3.connect(path)) as db:
        return str(db.execute("SELECT run_id FROM runs").fetchone()[0])


ARGUMENTS = """WHERE instr(body, CAST('{"to":"Ada"}' AS BLOB))"""
KEY = """WHERE substr(body, 34) = CAST('"k-1"' AS BLOB)"""


@pytest.mark.parametrize("where", [ARGUMENTS, KEY], ids=["arguments", "key"])
@pytest.mark.parametrize("how", ["UPDATE payloads SET commitment = x''", "DELETE FROM payloads"])
def test_the_arguments_of_an_open_call(tmp_path: Path, how: str, where: str) -> None:
    """The row that holds them, or its key, is renamed or gone: whoever goes on with it or settles it is told so."""
    path = tmp_path / "store.db"
    run_id = cut_off(path)
    change(path, f"{how} {where}")
    (tmp_path / "skills.py").write_text(SKILLS)
    command = Command(tmp_path)
    settle = ("resolve", run_id, "main:1", "--failed", "--reason", "seen")
    for words in (("resume", run_id), settle):
        done = command(*words, "--skills", "skills.py", "--store", str(path))
        assert "Traceback" not in done.err + done.out
        assert done.code == 1, done.err
        assert "[EVIDENCE_" in done.err, done.err
        assert done.err.count("\n") <= 2, done.err
    with pytest.raises(DamagedRecord, match=r"main:1.* is gone; `reenact verify"):
        wired(path, "till", "k-1")


@pytest.mark.parametrize("commit", [2, 3, EFFECT])
def test_the_commit_that_a_key_is_answered_from(tmp_path: Path, commit: int) -> None:
    """A commit of the call that has the key is moved away: an equal call is not answered from what is left."""
    path = tmp_path / "store.db"
    wired(path, "first", "k-1")
    change(path, f"UPDATE commits SET id = -1 WHERE id & 0xffffff = {commit}")
    with pytest.raises(DamagedRecord if commit == EFFECT else ReenactError):
        wired(path, "second", "k-1")
