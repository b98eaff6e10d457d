"""Stores of before heads were authenticated: what is open is verified once, vouched for, and marked."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from reenact.errors import NotAuthentic
from reenact.runtime.people import decisions
from reenact.store.checks.verification import verify_run
from reenact.store.keys.notes import is_signed_note
from reenact.store.signing import STRICT
from reenact.store.sqlite.signed import notes
from reenact.store.sqlite.signed.heads import MARKER
from reenact.store.sqlite.store import SqliteStore
from reenact.values.canonical import canonicalize
from tests.attacks.bank import APPROVED, Bank

GUARD = (
    "CREATE TRIGGER commits_are_not_updated BEFORE UPDATE ON commits\n"
    "BEGIN SELECT RAISE(ABORT, 'commits are append-only'); END"
)


def as_before(path: Path) -> None:
    """The store as the release before heads were authenticated would have left it."""
    key = Path(f"{path}.key")
    key.write_bytes(key.read_bytes().replace(STRICT, b""))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for trigger in ("commits_are_not_updated", "commits_keep_their_macs"):
            db.execute(f"DROP TRIGGER {trigger}")
        db.execute("ALTER TABLE commits DROP COLUMN mac")
        db.execute("ALTER TABLE run_checkpoints DROP COLUMN mac")
        db.execute("DELETE FROM idempotency WHERE key = ''")
        db.execute("ALTER TABLE idempotency DROP COLUMN next")
        db.execute("ALTER TABLE idempotency DROP COLUMN mac")
        db.execute("DROP INDEX runs_by_parent")
        for table in ("notes", "archived", "archives", "tallies"):
            db.execute(f"DROP TABLE {table}")
        for table in ("nodes", "checkpoints", "cosignatures", "timestamps", "contradictions", "peers"):
            db.execute(f"DROP TABLE log_{table}")
        db.execute(GUARD)
        db.execute("PRAGMA user_version = 9")


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


def test_an_open_run_of_before_goes_on_and_is_vouched_for(bank: Bank) -> None:
    run_id = bank.approved()
    as_before(bank.path)
    store = SqliteStore(str(bank.path))
    assert store.signing_key.kid
    (note,) = notes.of_kind(store._writer, MARKER)
    assert is_signed_note({store.signing_key.kid: store.signing_key.public_key}, note)
    marker = msgspec.json.decode(note.record or b"")
    assert (marker["last_run"], [run[0] for run in marker["runs"]]) == (1, [run_id])
    assert not store._writer.query("SELECT 1 FROM commits WHERE mac IS NULL")
    store.close()
    runtime = bank.runtime()
    assert [result.status for result in runtime.recover()] == ["completed"]
    runtime.close()
    assert bank.payments() == [APPROVED]
    assert verify_run(str(bank.path), run_id).exit_code == 0


def test_a_run_that_does_not_verify_is_not_vouched_for(bank: Bank) -> None:
    run_id = bank.approved()
    as_before(bank.path)
    with closing(sqlite3.connect(bank.path, isolation_level=None)) as db:
        db.execute("UPDATE traces SET step_id = 'other'")
    runtime = bank.runtime()
    with pytest.raises(NotAuthentic):
        runtime.resume(run_id)
    runtime.close()
    assert bank.payments() == []


def test_a_vote_that_waits_in_a_store_of_before_is_heard(bank: Bank) -> None:
    run_id = bank.waiting()
    store = SqliteStore(str(bank.path))
    (trace,) = decisions.load_fold(store, run_id).fold.open.values()
    assert trace.request is not None
    store.close()
    said = decisions.votes.new_vote(trace, approve=True, reason="", ts=trace.request.ts, who="kim")
    plain = {key: value for key, value in msgspec.to_builtins(said).items() if key != "arguments"}
    as_before(bank.path)
    with closing(sqlite3.connect(bank.path, isolation_level=None)) as db:
        db.execute("INSERT INTO ballots VALUES (1, ?, ?)", (trace.trace_id, canonicalize(plain)))
    runtime = bank.runtime()
    assert [result.status for result in runtime.recover()] == ["completed"]
    runtime.close()
    assert bank.payments() == [APPROVED]


def test_after_the_marker_a_missing_mac_is_damage(bank: Bank) -> None:
    run_id = bank.approved()
    with closing(sqlite3.connect(bank.path, isolation_level=None)) as db:
        db.execute("DROP TRIGGER commits_keep_their_macs")
        db.execute("UPDATE commits SET mac = NULL")
    runtime = bank.runtime()
    with pytest.raises(NotAuthentic, match="nothing vouches for it"):
        runtime.resume(run_id)
    with pytest.raises(NotAuthentic):
        asyncio.run(decisions.vote(runtime, run_id, "pay", approve=True, reason="", who="m"))
    runtime.close()
    assert bank.payments() == []
