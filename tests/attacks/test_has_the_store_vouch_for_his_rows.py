"""Whoever makes a store look as if nothing had been vouched for yet, to have the engine vouch for what he put there."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from reenact.errors import ReenactError
from reenact.store.checks.verification import verify_run
from reenact.store.signing import STRICT
from reenact.values.canonical import canonicalize
from tests.attacks.bank import APPROVED, Bank
from tests.attacks.forger import Forger

NOTES = ["schema = 'reenact.heads.v1'", "schema IN ('reenact.heads.v1', 'reenact.signing.v1')", "1"]


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


def change(bank: Bank, *statements: tuple[str, tuple[object, ...]]) -> None:
    with closing(sqlite3.connect(bank.path, isolation_level=None)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        for sql, values in statements:
            db.execute(sql, values)


def go_on(bank: Bank, run_id: str) -> None:
    runtime = bank.runtime()
    try:
        runtime.recover()
        runtime.resume(run_id)
    except ReenactError:
        pass
    finally:
        runtime.close()


def vote_of_nobody(bank: Bank) -> tuple[str, tuple[object, ...]]:
    forger = Forger(bank.path)
    asked = next(
        line["artifact"]
        for line in forger.lines()
        if line["kind"] == "entry" and line["artifact"].get("meta", {}).get("step_id") == "pay"
    )
    said = {"decision": "APPROVE", "reason": "ok", "ts": "2026-01-01T00:00:00.000Z", "who": "the boss"}
    body = canonicalize({**said, "action_request_digest": asked["_digest"]})
    return "INSERT INTO ballots VALUES (1, ?, ?)", (asked["trace_id"], body)


@pytest.mark.parametrize("gone", NOTES)
def test_a_vote_of_nobody_is_not_signed_by_the_store(bank: Bank, gone: str) -> None:
    run_id = bank.waiting()
    forged = vote_of_nobody(bank)
    change(bank, (f"DELETE FROM notes WHERE {gone}", ()), forged, ("UPDATE runs SET status = 'pending'", ()))
    go_on(bank, run_id)
    assert bank.payments() == []


@pytest.mark.parametrize("gone", NOTES)
@pytest.mark.parametrize("macs", ["NULL", "x''", "zeroblob(40)"])
def test_commits_without_a_mac_are_not_vouched_for_a_second_time(bank: Bank, gone: str, macs: str) -> None:
    run_id = bank.approved()
    change(bank, (f"DELETE FROM notes WHERE {gone}", ()), (f"UPDATE commits SET mac = {macs}", ()))
    go_on(bank, run_id)
    assert bank.payments() == []
    assert verify_run(str(bank.path), run_id).exit_code == 1


def test_a_key_of_before_vouches_once(bank: Bank) -> None:
    """It says in its own file that it has done so: the database alone could be made to forget."""
    run_id = bank.approved()
    key = Path(f"{bank.path}.key")
    key.write_bytes(key.read_bytes().replace(STRICT, b""))
    of_before = [("DELETE FROM notes WHERE 1", ()), ("UPDATE commits SET mac = NULL", ())]
    change(bank, *of_before, ("DELETE FROM ballots", ()))
    runtime = bank.runtime()
    assert runtime.store.signing_key.is_strict
    runtime.close()
    assert STRICT in key.read_bytes()
    change(bank, *of_before)
    go_on(bank, run_id)
    assert bank.payments() == []


def test_a_key_that_the_host_names_needs_no_line(bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made elsewhere, its file says nothing: a database that is made to look like one of before is not vouched for."""
    key = tmp_path / "elsewhere.pem"
    private = Ed25519PrivateKey.generate()
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key.chmod(0o600)
    monkeypatch.setenv("REENACT_SIGNING_KEY", str(key))
    run_id = bank.approved()
    change(bank, (f"DELETE FROM notes WHERE {NOTES[0]}", ()), ("UPDATE commits SET mac = NULL", ()))
    go_on(bank, run_id)
    assert bank.payments() == []
    assert STRICT not in key.read_bytes()  # it is not ours to write
    runtime = bank.runtime()
    runtime.store.vouch()  # a person has looked, and says that it is of before
    (result,) = runtime.recover()
    runtime.close()
    assert (result.status, bank.payments()) == ("completed", [APPROVED])
