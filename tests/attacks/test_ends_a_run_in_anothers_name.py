"""A request to cancel a run, put into the store by somebody who has no key of it: nothing ends, and it is named."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact.record.document import read_document
from reenact.runtime.people import decisions
from reenact.store.base import Store
from reenact.store.checks.verification import verify_run
from reenact.store.keys.ballots import CancelRequest, signed
from tests.attacks.bank import APPROVED, Bank
from tests.cli.harness import Command

ASKED = CancelRequest(reason="I, the CEO, ended this", ts="2026-01-01T00:00:00.000Z", who="ceo")
FORGED = ["unsigned", "no word", "empty", "own key", "other run", "other store", "other words", "a vote"]


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


def put(bank: Bank, run_id: str, note: str) -> None:
    with closing(sqlite3.connect(bank.path)) as db, db:
        db.execute("UPDATE runs SET cancel = ? WHERE run_id = ?", (note, run_id))


def forged(how: str, store: Store, strangers: Store, run_id: str) -> str:
    key, strange = store.signing_key, strangers.signing_key
    if how == "own key":
        return signed(strange, store.store_id, ASKED, run_id=run_id, trace_id="").decode()
    if how == "other run":
        return signed(key, store.store_id, ASKED, run_id=store.store_id, trace_id="").decode()
    if how == "other store":
        return signed(key, strangers.store_id, ASKED, run_id=run_id, trace_id="").decode()
    if how == "other words":
        note = signed(key, store.store_id, ASKED, run_id=run_id, trace_id="").decode()
        return note.replace('"ceo"', '"kim"')
    if how == "a vote":
        return signed(key, store.store_id, {"decision": "DENY"}, run_id=run_id, trace_id="").decode()
    return {"unsigned": '{"reason":"I, the CEO, ended this","who":"ceo"}', "no word": "[[[", "empty": ""}[how]


@pytest.mark.parametrize("how", FORGED)
def test_a_cancel_that_nobody_signed(bank: Bank, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """The attacker ends a payment that is on its way, in the name of the CEO."""
    run_id = bank.cut_off("before_dispatch")
    runtime, other = bank.runtime(), Bank(bank.path.parent / "other").runtime()
    put(bank, run_id, forged(how, runtime.store, other.store, run_id))
    other.close()
    (event,) = [each for each in read_document(runtime.store, run_id)["events"] if each["type"] == "cancel_ignored"]
    assert event["reason"]
    told: list[str] = []
    runtime.listeners = (lambda notice: told.append(notice.kind),)  # type: ignore[attr-defined]
    with caplog.at_level(logging.WARNING, "reenact.runs"):
        (result,) = runtime.recover()
    events = read_document(runtime.store, run_id)["events"]
    runtime.close()
    assert (result.status, bank.payments()) == ("completed", [APPROVED])
    assert told.count("cancel_ignored") == 1
    assert [each.getMessage() for each in caplog.records if "request to cancel it was ignored" in each.getMessage()]
    assert len([each for each in caplog.records if each.name == "reenact.runs"]) == 1
    assert "ceo" not in str(events)
    assert verify_run(str(bank.path), run_id).exit_code == 0


def test_show_names_it(bank: Bank) -> None:
    """A person who looks at the run sees that somebody tried."""
    run_id = bank.cut_off("before_dispatch")
    put(bank, run_id, '{"reason":"I, the CEO, ended this","who":"ceo"}')
    done = Command(bank.path.parent)("show", run_id, "--store", str(bank.path))
    assert "cancel_ignored" in done.out
    assert "it is no word of this store" in done.out
    assert "CEO" not in done.out


def test_a_session_is_not_ended_either(bank: Bank) -> None:
    """The same of a session that waits for a person: it is not sealed over the open call."""
    run_id = bank.session()
    put(bank, run_id, '{"reason":"I, the CEO, ended this","who":"ceo"}')
    runtime = bank.runtime()
    assert [each.status for each in runtime.recover()] in ([], ["waiting"])
    assert runtime.store.find_run(run_id).status == "waiting"
    runtime.close()


def test_what_a_person_asks_for_is_believed_over_a_forgery(bank: Bank) -> None:
    """The control: whoever has the key ends a run that somebody works on, whatever lay there before."""
    run_id = bank.cut_off("before_dispatch")
    put(bank, run_id, "junk")
    runtime, holder = bank.runtime(), bank.runtime()
    lease = holder.store.acquire(run_id, holder.owner)
    assert asyncio.run(decisions.cancel(runtime, run_id, reason="enough", who="kim")) is False
    holder.store.release(lease)
    holder.close()
    (result,) = runtime.recover()
    (event,) = [each for each in read_document(runtime.store, run_id)["events"] if each["type"] == "cancel"]
    runtime.close()
    assert (result.status, bank.payments()) == ("cancelled", [])
    assert (event["who"], event["reason"]) == ("kim", "enough")
    assert verify_run(str(bank.path), run_id).exit_code == 0
