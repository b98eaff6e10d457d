"""Whoever takes out or changes the row of an idempotency key, so that what was done under it is done once more."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import NotAuthentic
from reenact.store.checks.verification import verify_run

PAID: list[str] = []
NAMES = ["ada", "bob", "cyd", "dan", "eve"]


@skill("pay", version="1.0.0", tool_class="write")
def pay(to: str) -> dict[str, str]:
    """Fails at first for bob."""
    if to == "bob" and "bob?" not in PAID:
        PAID.append("bob?")
        raise ValueError
    PAID.append(to)
    return {"paid": to}


@pytest.fixture(autouse=True)
def paid() -> None:
    PAID.clear()


def call(path: Path, *names: str) -> str:
    runtime = Runtime(str(path), skills=[pay])
    try:
        with runtime.session(agent_id="a") as session:
            for name in names:
                session.call("pay", {"to": name}, idempotency_key=name)
        return session.run_id
    finally:
        runtime.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    call(path, *NAMES)
    call(path, "bob")  # the second time it is paid
    assert PAID == ["ada", "bob?", "cyd", "dan", "eve", "bob"]
    PAID.clear()
    return path


ATTACKS = {
    "deleted": "DELETE FROM idempotency WHERE key IN (SELECT key FROM idempotency WHERE key > '' ORDER BY key LIMIT 1)",
    "the middle one deleted": "DELETE FROM idempotency WHERE key = (SELECT max(key) FROM idempotency WHERE key < "
    "(SELECT max(key) FROM idempotency))",
    "the last deleted": "DELETE FROM idempotency WHERE key = (SELECT max(key) FROM idempotency)",
    "all deleted": "DELETE FROM idempotency",
    "all but the first deleted": "DELETE FROM idempotency WHERE key > ''",
    "released": "UPDATE idempotency SET state = 'released' WHERE key > ''",
    "released to nobody": "UPDATE idempotency SET state = 'released', mac = NULL WHERE key > ''",
    "given to another call": "UPDATE idempotency SET trace_id = (SELECT trace_id FROM traces ORDER BY id LIMIT 1)",
    "in no state": "UPDATE idempotency SET state = 'x' WHERE key > ''",
    "linked around": "UPDATE idempotency SET next = '' WHERE key = ''; DELETE FROM idempotency WHERE key > ''",
    "of before": "UPDATE idempotency SET next = NULL, mac = NULL; DELETE FROM idempotency",
    "of before, and no notes": "DELETE FROM idempotency; DROP TRIGGER notes_are_not_deleted; DELETE FROM notes",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_was_paid_is_not_paid_again(store: Path, attack: str) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        db.executescript(ATTACKS[attack])
    refused = []
    for name in NAMES:
        try:
            call(store, name)
        except NotAuthentic as error:
            refused.append(str(error))
    assert PAID == []
    assert refused
    assert all("`reenact" in said for said in refused)  # what to do next


def test_a_key_that_was_never_used_is_free(store: Path) -> None:
    """The control: nothing is refused that nobody touched."""
    call(store, *NAMES, "fay")
    assert PAID == ["fay"]


def test_a_call_that_failed_is_not_put_in_the_place_of_the_one_that_did_not(store: Path) -> None:
    """Bob's key was used twice: its row is turned back to the call that failed, whose key is free again."""
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        ((key,),) = db.execute("SELECT key FROM idempotency WHERE run_no = 2").fetchall()
        failed = db.execute("SELECT trace_id FROM traces WHERE id = 1 << 24 | 1").fetchone()[0]
        db.execute("UPDATE idempotency SET trace_id = ?, run_no = 1, state = 'released' WHERE key = ?", (failed, key))
    with pytest.raises(NotAuthentic, match="not what was written"):
        call(store, "bob")
    assert PAID == []


def test_the_store_goes_on_after_a_person_has_looked(store: Path) -> None:
    """`verify` names the row that is gone; what is there then is vouched for when somebody says so."""
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        db.execute(ATTACKS["the last deleted"])
    with closing(sqlite3.connect(store)) as db:
        ids = [row[0] for row in db.execute("SELECT run_id FROM runs ORDER BY run_no")]
    told = [difference.what for run_id in ids[:2] for difference in verify_run(str(store), run_id).differences]
    assert set(told) == {"there is no such row"}  # of two runs where both have used it
    runtime = Runtime(str(store), skills=[pay])
    runtime.store.vouch()
    runtime.close()
    call(store, "fay")
    assert PAID == ["fay"]


def test_a_rotated_key_vouches_for_them_too(store: Path) -> None:
    """What the old key had not vouched for, the new one does not either."""
    runtime = Runtime(str(store), skills=[pay])
    runtime.store.key_table.rotate("kim")
    runtime.close()
    Path(f"{store}.key").rename(store.with_name("away"))
    call(store, *NAMES, "fay")
    assert PAID == ["fay"]
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        db.execute("UPDATE idempotency SET state = 'released' WHERE key = (SELECT max(key) FROM idempotency)")
    runtime = Runtime(str(store), skills=[pay])
    runtime.store.key_table.rotate("kim")
    runtime.close()
    with pytest.raises(NotAuthentic):
        for name in (*NAMES, "fay"):
            call(store, name)
    assert PAID == ["fay"]
