"""Whoever puts another secret into the store, by which no idempotency key that was used is known any more."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import NotAuthentic

PAID: list[str] = []


@skill("pay", version="1.0.0", tool_class="write")
def pay(to: str) -> dict[str, str]:
    PAID.append(to)
    return {"paid": to}


def call(path: Path, name: str = "ada") -> None:
    runtime = Runtime(str(path), skills=[pay])
    try:
        with runtime.session(agent_id="a") as session:
            session.call("pay", {"to": name}, idempotency_key=name)
    finally:
        runtime.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    call(path)
    PAID.clear()
    return path


ATTACKS = {
    "another": "UPDATE key_secret SET secret = randomblob(32)",
    "empty": "UPDATE key_secret SET secret = x''",
    "none": "DELETE FROM key_secret",
    "another, and no notes": "UPDATE key_secret SET secret = randomblob(32); DELETE FROM notes",
    "another, and no rows": "UPDATE key_secret SET secret = randomblob(32); DELETE FROM idempotency",
    "none, and no rows": "DELETE FROM key_secret; DELETE FROM idempotency",
    "another, of before": "UPDATE key_secret SET secret = randomblob(32); UPDATE idempotency SET trace_id = ''",
}


def change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.executescript(script)


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_was_paid_is_not_paid_again(store: Path, attack: str) -> None:
    change(store, ATTACKS[attack])
    for _ in range(2):  # nor the second time
        with pytest.raises(NotAuthentic, match="`reenact ") as refused:
            call(store)
        assert "\n" not in str(refused.value)
    assert PAID == []


def test_the_secret_put_back_makes_it_whole(store: Path) -> None:
    with closing(sqlite3.connect(store)) as db:
        secret = db.execute("SELECT hex(secret) FROM key_secret").fetchone()[0]
    change(store, ATTACKS["none"])
    with pytest.raises(NotAuthentic, match="is gone"):
        call(store)
    change(store, f"INSERT INTO key_secret VALUES (1, x'{secret}')")
    call(store)
    assert PAID == []


@pytest.mark.parametrize("attack", ["another", "none"])
def test_a_person_may_take_it_as_it_is(store: Path, attack: str) -> None:
    """Who says so knows that no key is known then."""
    change(store, ATTACKS[attack])
    runtime = Runtime(str(store), skills=[pay])
    runtime.store.vouch()
    runtime.close()
    call(store)
    assert PAID == ["ada"]
