"""Whoever takes the id from a session's run, so that it begins anew and all that it did is done once more."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import NotAuthentic
from reenact.store.beside.idempotency import FIRST, LAST, KeyRow
from reenact.store.checks.verification import verify_run
from reenact.store.sqlite.keys import KeyRows

PAID: list[str] = []


@skill("pay", version="1.0.0", tool_class="write")
def pay(to: str) -> dict[str, str]:
    PAID.append(to)
    return {"paid": to}


@pytest.fixture(autouse=True)
def paid() -> None:
    PAID.clear()


class Stop(BaseException):
    """A program that is killed."""


def work(path: Path, name: str = "order", *, to: str = "ada", fork: bool = False, dies: bool = False) -> str:
    runtime = Runtime(str(path), skills=[pay])
    wish = {"on_divergence": "fork", "accept": ["main:1"]} if fork else {}
    try:
        with runtime.session(id=name, agent_id="a", **wish) as session:
            session.call("pay", {"to": to})
            if dies:
                raise Stop
        return session.run_id
    finally:
        runtime.close()


def change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.executescript(script)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    work(path, "another", to="bob")
    work(path)
    PAID.clear()
    return path


ROW = "(SELECT key FROM idempotency WHERE tool = 'session' AND run_no = 2)"
ATTACKS = {
    "no id": "UPDATE runs SET session = NULL WHERE session = 'order'",
    "another id": "UPDATE runs SET session = 'x' WHERE session = 'order'",
    "another agent": "UPDATE runs SET agent_id = 'b' WHERE session = 'order'",
    "no run": "DELETE FROM runs WHERE session = 'order'",
    "another run": "UPDATE runs SET session = CASE session WHEN 'order' THEN 'another' ELSE 'order' END",
    "no id, nor its row": f"UPDATE runs SET session = NULL WHERE session = 'order'; "
    f"DELETE FROM idempotency WHERE key = {ROW}",
    "no id, nor any row": "UPDATE runs SET session = NULL; DELETE FROM idempotency",
    "no id, and its row another's": "UPDATE runs SET session = NULL WHERE session = 'order'; "
    f"UPDATE idempotency SET key = 'f' WHERE key = {ROW}",
    "no id, notes or rows": "UPDATE runs SET session = NULL; DELETE FROM idempotency; DELETE FROM notes",
    "its row alone": f"DELETE FROM idempotency WHERE key = {ROW}",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_was_paid_is_not_paid_again(store: Path, attack: str) -> None:
    change(store, ATTACKS[attack])
    with pytest.raises(NotAuthentic, match="`reenact ") as refused:
        work(store)
    assert "\n" not in str(refused.value)
    assert PAID == []
    with closing(sqlite3.connect(store)) as db:
        assert db.execute("SELECT max(run_no) FROM runs").fetchone()[0] <= 2  # nothing was begun


def test_an_id_is_not_planted_on_a_run_that_never_had_it(store: Path) -> None:
    change(store, "UPDATE runs SET session = 'new' WHERE session = 'another'")
    with pytest.raises(NotAuthentic):
        work(store, "new", to="bob")
    assert PAID == []


def test_sessions_that_nobody_touched_go_on(store: Path) -> None:
    """The control, also after a rotation."""
    first = work(store)
    runtime = Runtime(str(store), skills=[pay])
    runtime.store.key_table.rotate("kim")
    runtime.close()
    assert work(store) == first
    assert PAID == []
    assert verify_run(str(store), first).differences == ()


def test_the_id_goes_with_a_fork_and_not_back(store: Path) -> None:
    with pytest.raises(Stop):
        work(store, "long", dies=True)
    fork = work(store, "long", to="cyd", fork=True)
    assert PAID == ["ada", "cyd"]
    assert work(store, "long", to="cyd") == fork
    assert PAID == ["ada", "cyd"]
    with closing(sqlite3.connect(store)) as db:
        runs = [row[0] for row in db.execute("SELECT run_id FROM runs WHERE session = 'long' ORDER BY run_no")]
    assert runs[1:] == [fork]
    assert [verify_run(str(store), run_id).differences for run_id in runs] == [(), ()]
    change(store, f"UPDATE runs SET session = NULL WHERE run_id = '{fork}'")
    with pytest.raises(NotAuthentic):
        work(store, "long")


def test_sessions_of_before_get_their_rows(store: Path) -> None:
    """Where the rows of a store are vouched for, and ids were not among them."""
    runtime = Runtime(str(store), skills=[pay])
    rows = runtime.store.idempotency
    with runtime.store._writer.transaction() as db:
        db.execute("DELETE FROM idempotency")
        rows._write(KeyRows(db.execute), KeyRow(*FIRST, None, "", "", 0, "released", LAST))
    runtime.close()
    work(store)
    assert PAID == []
    change(store, ATTACKS["no id"])
    with pytest.raises(NotAuthentic):
        work(store)
    assert PAID == []


def test_a_person_who_has_looked_lets_it_go_on(store: Path) -> None:
    change(store, ATTACKS["no id"])
    runtime = Runtime(str(store), skills=[pay])
    runtime.store.vouch()
    runtime.close()
    work(store)
    assert PAID == ["ada"]
