"""Attacks on what is dispatched: changed arguments, forged approvals and votes, other skills, other modes."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.errors import NotAuthentic, ReenactError
from reenact.record.document import read_document
from reenact.runtime.call import capability
from reenact.runtime.call.call import Call
from reenact.runtime.people import decisions
from reenact.store.checks.verification import verify_run
from reenact.store.keys.ballots import signed
from reenact.values.canonical import canonicalize
from tests.attacks.bank import APPROVED, PLAN, Bank
from tests.attacks.forger import Forger, Record, forge

MACS = ["kept", "gone", "own"]


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


def artifact(forger: Forger, kind: str, step_id: str) -> Record:
    ids = {
        line["artifact"]["trace_id"]
        for line in forger.lines()
        if line.get("artifact", {}).get("meta", {}).get("step_id") == step_id
    }
    return next(
        line["artifact"]
        for line in forger.lines()
        if line["kind"] == "entry" and line["entry"]["artifact_type"] == kind and line["artifact"]["trace_id"] in ids
    )


def pay_more(forger: Forger) -> None:
    forger.change_payload(forger.arguments_of("pay"), {"payee": "Mallory", "amount": 9_999_999, "rate": 2})


def refused(bank: Bank, run_id: str, *, paid: int = 0) -> None:
    """Nothing is sent and nothing written, whichever way somebody goes on; the error says what, where and what next."""
    before = rows(bank.path)
    runtime = bank.runtime()
    (result,) = runtime.recover()
    assert isinstance(result.error, NotAuthentic), result
    assert result.error.code == "EVIDENCE_NOT_AUTHENTIC"
    said = str(result.error)
    assert run_id in said
    assert "commit" in said or "step" in said
    assert f"reenact verify {run_id}" in said
    with pytest.raises(NotAuthentic):
        runtime.resume(run_id)
    with pytest.raises(NotAuthentic):
        asyncio.run(decisions.vote(runtime, run_id, "pay", approve=True, reason="", who="m"))
    with pytest.raises(NotAuthentic):
        asyncio.run(decisions.cancel(runtime, run_id, reason="", who="m"))
    runtime.close()
    assert len(bank.payments()) == paid
    assert rows(bank.path) == before
    assert verify_run(str(bank.path), run_id).exit_code == 1


def rows(path: Path) -> list[object]:
    with sqlite3.connect(path) as db:
        return [db.execute(f"SELECT * FROM {table}").fetchall() for table in ("commits", "payloads", "traces", "notes")]


@pytest.mark.parametrize("mac", MACS)
@pytest.mark.parametrize("stands", ["approved", "cut_off"])
def test_arguments_changed_after_a_person_approved_them(bank: Bank, stands: str, mac: str) -> None:
    """An approved payment of 100 is changed into 9,999,999 to another payee, and somebody goes on with the run."""
    run_id = bank.approved() if stands == "approved" else bank.cut_off("before_dispatch")
    forge(bank.path, pay_more, mac=mac)
    refused(bank, run_id)


def test_what_was_approved_is_sent(bank: Bank) -> None:
    """The control: nobody forged anything."""
    run_id = bank.cut_off("before_dispatch")
    runtime = bank.runtime()
    (result,) = runtime.recover()
    runtime.close()
    assert (result.status, bank.payments()) == ("completed", [APPROVED])
    assert verify_run(str(bank.path), run_id).exit_code == 0


@pytest.mark.parametrize("mac", MACS)
@pytest.mark.parametrize("token", ["forged.by.nobody", "own key"])
def test_a_forged_decision(bank: Bank, mac: str, token: str) -> None:
    """The capability of a call that was to be sent is replaced by one that nobody, or the forger himself, signed."""
    run_id = bank.cut_off("before_dispatch")

    def change(forger: Forger) -> None:
        decision = artifact(forger, "supervisor_decision", "pay")
        header, claims, signature = str(decision["minted_capability"]).split(".")
        wrong = base64.urlsafe_b64encode(bytes(64)).rstrip(b"=").decode()
        decision["minted_capability"] = token if token != "own key" else f"{header}.{claims}.{wrong}"
        assert signature

    forge(bank.path, change, mac=mac)
    refused(bank, run_id)


def set_mode(forger: Forger) -> None:
    next(line for line in forger.lines() if line["kind"] == "run")["run"]["mode"] = "full_replay"


@pytest.mark.parametrize(
    "change",
    [
        lambda forger: artifact(forger, "action_request", "pay")["meta"].update(definition_digest="ab" * 32),
        set_mode,
        lambda forger: artifact(forger, "action_request", "pay").update(agent_id=next(forger.lines())["run_id"]),
    ],
    ids=["skill definition", "mode", "agent"],
)
def test_another_skill_definition_mode_or_agent(bank: Bank, change: Callable[[Forger], object]) -> None:
    """What an approval was bound to is changed in the journal."""
    run_id = bank.cut_off("before_dispatch")
    forge(bank.path, change)
    refused(bank, run_id)


@pytest.mark.parametrize("where", ["bound", "signature", "no dispatch"])
def test_an_approval_is_checked_before_every_dispatch(bank: Bank, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where somebody has the key of heads, what is about to be sent must be what the capability is for."""
    run_id = bank.cut_off("before_dispatch")
    if where == "bound":
        monkeypatch.setattr(capability, "vote_in", lambda _: "another vote")
    elif where == "signature":
        monkeypatch.setattr(capability.Mint, "read", lambda *_: None)
    else:
        monkeypatch.setattr(capability, "NO_DISPATCH", ["pay"])
    runtime = bank.runtime()
    if where == "no dispatch":
        assert runtime.recover()[0].status == "held"
    else:
        with pytest.raises(NotAuthentic, match="nothing is sent"):
            runtime.resume(run_id)
    runtime.close()
    assert bank.payments() == []


def test_first_attempts_are_checked_too(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is at the one door that every dispatch goes through, for calls of this process as for found ones."""
    seen: list[str] = []
    real = capability.check

    def check(call: Call) -> None:
        seen.append(call.step.step_id)
        real(call)

    monkeypatch.setattr(capability, "check", check)
    runtime = bank.runtime()
    assert runtime.run({**PLAN, "context": {}}).status == "completed"
    runtime.close()
    assert seen == ["rate", "pay"]


@pytest.mark.parametrize("mac", MACS)
def test_a_vote_forged_in_the_journal(bank: Bank, mac: str) -> None:
    """A vote of kim's is appended to the last commit of a run that waits."""
    run_id = bank.waiting()

    def change(forger: Forger) -> None:
        request = artifact(forger, "action_request", "pay")
        vote = {
            "action_request_digest": request["_digest"],
            "decision": "APPROVE",
            "digest": "",
            "reason": None,
            "schema": "reenact.vote.v1",
            "trace_id": request["trace_id"],
            "ts": request["ts"],
            "who": "kim",
        }
        commit, *rest = list(forger.commits.values())[-1]
        forger.commits[max(forger.commits)] = [commit, {"kind": "vote", "vote": vote}, *rest]

    forge(bank.path, change, mac=mac)
    refused(bank, run_id)


JUNK = [b"", b"junk", b"{}", b"\xff\xfe", b"[" * 5000, b'{"decision":"APPROVE"}']


@pytest.mark.parametrize("body", [*JUNK, "unsigned", "other call", "own key"])
def test_a_row_put_into_ballots(bank: Bank, body: bytes | str) -> None:
    """A row in anybody's name is not believed, stops neither `show`, `ls` nor `recover`, and keeps no real vote out."""
    run_id = bank.waiting()
    other = Bank(bank.path.parent / "other")
    runtime = bank.runtime()
    fold = decisions.load_fold(runtime.store, run_id).fold
    (trace,) = fold.open.values()
    assert trace.request is not None
    said = decisions.votes.new_vote(trace, approve=True, reason="", ts=trace.request.ts, who="kim")
    if body == "unsigned":
        raw = canonicalize(said)
    elif body == "other call":
        key = runtime.store.signing_key
        raw = signed(key, runtime.store.store_id, said, run_id=run_id, trace_id=run_id)
    elif body == "own key":
        key = other.runtime().store.signing_key
        raw = signed(key, runtime.store.store_id, said, run_id=run_id, trace_id=trace.trace_id)
    else:
        assert isinstance(body, bytes)
        raw = body
    with sqlite3.connect(bank.path) as db:
        db.execute("INSERT INTO ballots VALUES (1, ?, ?)", (trace.trace_id, raw))
        if body == "own key":
            db.execute("INSERT INTO keys VALUES (?, ?)", (key.kid, key.public_key))
    told: list[str] = []
    runtime.listeners = (lambda notice: told.append(notice.kind),)  # type: ignore[attr-defined]
    assert [result.status for result in runtime.recover()] == ["waiting"]
    assert bank.payments() == []
    document = read_document(runtime.store, run_id)
    assert [event["type"] for event in document["events"]] == ["vote_ignored"]
    asyncio.run(decisions.vote(runtime, run_id, "pay", approve=True, reason="", who="lee"))
    assert [result.status for result in runtime.recover()] == ["completed"]
    runtime.close()
    assert bank.payments() == [APPROVED]


def test_one_forged_run_does_not_keep_others_from_going_on(bank: Bank) -> None:
    """In `recover` it is that run's result."""
    forged = bank.approved()
    forge(bank.path, pay_more)
    runtime = bank.runtime()
    result = runtime.run(PLAN)
    asyncio.run(decisions.vote(runtime, result.run_id, "pay", approve=True, reason="", who="kim"))
    found = {each.run_id: each for each in runtime.recover()}
    runtime.close()
    assert isinstance(found[forged].error, ReenactError)
    assert found[result.run_id].status == "completed"
    assert bank.payments() == [APPROVED]


def test_a_session_is_not_gone_on_with_either(bank: Bank) -> None:
    """The arguments of a call that waits in a session are changed, and the program is started again."""
    run_id = bank.session()
    forge(bank.path, pay_more_in_session)
    runtime = bank.runtime()
    with pytest.raises(NotAuthentic), runtime.session(id="till-1", agent_id="clerk"):
        pass
    with pytest.raises(NotAuthentic), runtime.session(resume=run_id):
        pass
    runtime.close()
    assert bank.payments() == []


def pay_more_in_session(forger: Forger) -> None:
    step_id = next(
        line["artifact"]["meta"]["step_id"]
        for line in forger.lines()
        if line.get("artifact", {}).get("meta", {}).get("skill_id") == "pay"
    )
    forger.change_payload(forger.arguments_of(step_id), {"payee": "Mallory", "amount": 9_999_999, "rate": 2})


def test_the_output_of_an_earlier_step_is_not_another_s(bank: Bank) -> None:
    """The row that says where a step's trace lies points to another call: what is referred to would be of that."""
    run_id = bank.approved()
    with sqlite3.connect(bank.path) as db:
        db.execute("UPDATE traces SET trace_id = (SELECT trace_id FROM traces WHERE id & 1 = 1) WHERE id & 1 = 0")
    runtime = Runtime(str(bank.path), skills=bank.skills())
    with pytest.raises(ReenactError):
        runtime.resume(run_id)
        raise ReenactError("it was sent as it was approved") if bank.payments() == [APPROVED] else AssertionError
    runtime.close()


def test_a_recording_whose_results_were_rewritten_is_not_replayed(bank: Bank) -> None:
    """What a sealed payment returned is changed, with every digest up to the seal: nothing is run from it again."""
    run_id = bank.paid()

    def change(forger: Forger) -> None:
        output = artifact(forger, "tool_effect", "pay")["document_hashes"][0]["hash"]
        forger.change_payload(str(output), {"paid": "Eve"})

    forge(bank.path, change)
    runtime = bank.runtime()
    with pytest.raises(ReenactError):
        runtime.replay(run_id)
    runtime.close()
    assert len(bank.payments()) == 1
    assert verify_run(str(bank.path), run_id).exit_code == 1
