"""Whoever changes values beside the journal: rows exchanged, forged under right commitments, left as results."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime
from reenact.errors import ReenactError
from reenact.runtime import crash_points
from reenact.store.checks.verification import verify_run
from reenact.values.canonical import canonicalize, parse_canonical
from tests.attacks.bank import APPROVED, PLAN, Bank
from tests.attacks.forger import Forger

LONG = "invoice " * 40
WANTED = {"payee": f"Ada {LONG}", "amount": 100, "rate": 2}
FORGED = {"payee": "Mallory", "amount": 9_999_999, "rate": 2}


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


def database(bank: Bank) -> sqlite3.Connection:
    db = sqlite3.connect(bank.path, isolation_level=None)
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        db.execute(f"DROP TRIGGER {name}")
    return db


def crash(bank: Bank, where: str, act: Callable[[Runtime], object]) -> None:
    child = os.fork()
    if child == 0:
        crash_points.arm(where)
        try:
            act(bank.runtime())
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)


def test_content_that_is_to_be_stored_already(bank: Bank) -> None:
    """A row of `contents` says that the arguments of the next payment lie in an envelope of the attacker's."""
    steps = [PLAN["steps"][0], {"step_id": "pay", "skill_id": "pay", "parameters": WANTED}]
    plan = {**PLAN, "steps": steps, "context": {}}
    crash(bank, "before_dispatch", lambda runtime: runtime.run(plan))
    envelope = bytes(32) + canonicalize(FORGED)
    with closing(database(bank)) as db:
        ((run_id, dedupe_key),) = db.execute("SELECT run_id, dedupe_key FROM runs").fetchall()
        place, digest = 1 << 36 | 1 << 12 | 4000, sha256(envelope).digest()
        key = blake2b(canonicalize(WANTED), key=dedupe_key, digest_size=16).digest()
        db.execute("INSERT INTO payloads VALUES (?, ?, ?)", (place, digest, b"\0" + envelope))
        db.execute("INSERT INTO contents VALUES (1, ?, ?, ?)", (key, place, digest))
    crash(bank, "before_dispatch:2", lambda runtime: runtime.recover())
    runtime = bank.runtime()
    runtime.recover()
    runtime.close()
    assert [payee.startswith("Ada") for payee, _, _ in bank.payments()] == [True]
    assert verify_run(str(bank.path), run_id).exit_code == 1  # the row itself is told of


@pytest.mark.parametrize("how", ["exchanged", "forged", "moved"])
@pytest.mark.parametrize("which", ["rate's result", "pay's arguments", "the plan"])
def test_values_exchanged_between_rows(bank: Bank, how: str, which: str) -> None:
    """What an earlier step returned, what was approved, or the plan, is another value when the run goes on."""
    run_id = bank.approved()
    forger = Forger(bank.path)
    named = {
        "rate's result": result_of_rate(forger),
        "pay's arguments": forger.arguments_of("pay"),
        "the plan": next(line["run"]["plan"] for line in forger.lines() if line["kind"] == "run"),
    }
    forger.db.close()
    wanted = bytes.fromhex(named[which])
    with closing(database(bank)) as db:
        if how == "forged":  # under the commitment that the journal names
            body = b"\0" + bytes(32) + canonicalize({**FORGED, "currency": "EUR"})
            db.execute("UPDATE payloads SET body = ? WHERE commitment = ?", (body, wanted))
        elif how == "exchanged":
            ((other,),) = db.execute("SELECT body FROM payloads WHERE commitment != ? LIMIT 1", (wanted,)).fetchall()
            db.execute("UPDATE payloads SET body = ? WHERE commitment = ?", (other, wanted))
        else:
            place = db.execute("SELECT max(id) + 1 FROM payloads").fetchone()[0]
            body = b"\0" + bytes(32) + canonicalize(FORGED)
            db.execute("INSERT INTO payloads VALUES (?, ?, ?)", (place, wanted, body))
            db.execute("DELETE FROM payloads WHERE commitment = ? AND id != ?", (wanted, place))
            db.execute("INSERT OR REPLACE INTO shared_payloads VALUES (1, ?, ?)", (wanted, place))
    runtime = bank.runtime()
    (result,) = runtime.recover()
    with pytest.raises(ReenactError):
        runtime.resume(run_id)
        raise ReenactError("what was approved was sent") if bank.payments() == [APPROVED] else AssertionError
    runtime.close()
    assert bank.payments() in ([], [APPROVED])
    if which != "rate's result":  # what was approved does not need that any more
        assert result.error is not None or result.status == "held"
        assert bank.payments() == []


def test_a_result_that_a_later_step_is_called_with(bank: Bank) -> None:
    """A payment that refers to an earlier result is not asked for yet when that result is forged."""
    plan = {**PLAN, "context": {}}
    crash(bank, "after_effect", lambda runtime: runtime.run(plan))
    crash(bank, "before_dispatch:2", lambda runtime: runtime.recover())
    bank.forget()
    forger = Forger(bank.path)
    result = result_of_rate(forger)
    forger.db.close()
    with closing(database(bank)) as db:
        body = b"\0" + bytes(32) + canonicalize({"rate": 9000, "currency": "EUR"})
        db.execute("UPDATE payloads SET body = ? WHERE commitment = ?", (body, bytes.fromhex(result)))
    runtime = bank.runtime()
    runtime.recover()
    runtime.close()
    assert bank.payments() in ([], [APPROVED])


def result_of_rate(forger: Forger) -> str:
    return next(
        str(line["artifact"]["document_hashes"][0]["hash"])
        for line in forger.lines()
        if line["kind"] == "entry" and line["entry"]["artifact_type"] == "tool_effect"
    )


def late(trace_id: str, output: object) -> dict[str, Any]:
    at = "2026-01-01T00:00:00.000Z"
    return {
        "attempt": 0, "details": None, "ended_at": at, "facts": {}, "latency_ms": 1, "message": None, "output": output,
        "request_id": None, "response": None, "retry_after_ms": None, "same": True, "side_effects": [],
        "started_at": at, "trace_id": trace_id, "unsure": False,
    }  # fmt: skip


@pytest.mark.parametrize("body", ["forged", "junk", "of another call"])
def test_a_result_that_nobody_left(bank: Bank, body: str) -> None:
    """A row of `late_effects` says what came of a call whose process died: the next step would be called with it."""
    crash(bank, "before_dispatch", lambda runtime: runtime.run({**PLAN, "context": {}}))
    with closing(database(bank)) as db:
        ((run_id,),) = db.execute("SELECT run_id FROM runs").fetchall()
        ((trace_id,),) = db.execute("SELECT trace_id FROM traces").fetchall()
        left = canonicalize(late(trace_id if body == "forged" else run_id, {"rate": 9_999_999, "currency": "EUR"}))
        row = (trace_id, b"junk" if body == "junk" else left)
        db.execute("INSERT INTO late_effects (run_no, trace_id, body) VALUES (1, ?, ?)", row)
    runtime = bank.runtime()
    (result,) = runtime.recover()
    runtime.close()
    assert bank.payments() == []
    assert (result.status, result.error) == ("held", None)
    assert "late" in (result.reason or "")
    assert parse_canonical(left)
