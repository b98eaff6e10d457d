"""A caller's key is one key in a store: in another session, another process, a plan that nobody pinned."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from reenact import Registry, Runtime, skill
from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import RunRecord
from reenact.record.erase import erase
from reenact.record.export import export_run
from reenact.replay import load_recording
from reenact.runtime import opening
from reenact.runtime.call import artifacts, ending
from reenact.runtime.call.call import Call
from reenact.runtime.gates.answer import Answered
from reenact.runtime.gates.supervisor import Proposal
from reenact.runtime.people.decisions import vote
from reenact.values.digest import hmac_hex
from tests.crash.harness import KILLED, SKILLS, Stage, in_child
from tests.engines.places import ask, store_at
from tests.replay.recording import mocked
from tests.runtime.running import Bench, plan, step

AGENT = "agent"


@pytest.fixture
def bench(stage: Stage) -> Bench:
    return Bench(stage.folder, *SKILLS)


def charge(stage: Stage, value: int = 1, **fields: object) -> dict[str, Any]:
    return step("act", {"ledger": stage.ledger_path, "value": value}, **{"idempotency_key": "order-42", **fields})


def in_session(
    bench: Bench, stage: Stage, value: int = 1, *, agent_id: str = AGENT, key: str = "order-42"
) -> StructuredOutcome:
    with bench.runtime.session(agent_id=agent_id) as session:
        return session.call("act", {"ledger": stage.ledger_path, "value": value}, idempotency_key=key)


def gate_of(bench: Bench, run_id: str = "last") -> str:
    (trace,) = bench.traces(bench.store.find_run(run_id).run_id)
    assert trace.decision is not None
    assert isinstance(trace.decision.meta, dict)
    return str(trace.decision.meta["gate"])


# -- one effect --------------------------------------------------------------------------------------------------------


def test_two_sessions_two_processes_and_an_unpinned_plan_have_one_effect_and_one_key(stage: Stage) -> None:
    bench = Bench(stage.folder, *SKILLS)
    first = in_session(bench, stage)
    again = in_session(bench, stage)
    planned = bench.run(charge(stage))
    assert in_child(lambda: in_session(Bench(stage.folder, *SKILLS), stage)) == 0
    assert in_child(lambda: Bench(stage.folder, *SKILLS).run(charge(stage))) == 0
    assert len(stage.ledger.calls()) == 1
    assert again.output == planned.outcomes[0].output == first.output == {"value": 1}
    rows = bench.store.runs()
    keys = {trace.call.idempotency_key for row in rows for trace in bench.traces(row.run_id) if trace.call is not None}
    assert len(rows) == 5
    assert keys == {stage.ledger.calls()[0].key}
    for row in rows:
        bench.check(row.run_id)


def test_what_a_key_answers_is_one_commit_that_charges_nothing_and_asks_nobody(bench: Bench, stage: Stage) -> None:
    in_session(bench, stage)
    result = bench.run(charge(stage))
    (trace,) = bench.traces(result.run_id)
    assert trace.decision is not None
    assert trace.decision.rationale == "Answered by its idempotency key"
    assert gate_of(bench, result.run_id) == "key"
    assert [record.kind for record in trace.attempts] == ["served"]
    (body,) = bench.store.bodies(result.run_id)
    assert body.count(b'"kind":"entry"') == 4
    assert (trace.cost_exact, result.outcomes[0].details and result.outcomes[0].details["served_from"]) == (
        0,
        stage.ledger.calls()[0].trace_id,
    )


def test_the_key_wins_over_the_duplicate_gate(tmp_path: Path) -> None:
    made = []

    @skill("search", version="1.0.0", tool_class="read", idempotent=True)
    def search(q: str) -> str:
        made.append(q)
        return q

    with Bench(tmp_path, search).runtime.session() as session:
        answers = [session.call("search", {"q": "x"}, idempotency_key="k") for _ in range(2)]
        without = session.call("search", {"q": "x"})
    assert [answer.output for answer in answers] == ["x", "x"]
    assert without.code == "DENIED_DUPLICATE"
    assert made == ["x"]


def test_a_call_that_its_key_answers_needs_no_money(tmp_path: Path) -> None:
    @skill("pay", version="1.0.0", tool_class="write", cost_estimate_cents=60)
    def pay(n: int) -> int:
        return n

    bench = Bench(tmp_path, pay)
    twice = [step(pay, {"n": 1}, idempotency_key="k")] * 2
    result = bench.run(*twice, budget_cents=100)
    assert (result.status, result.outcomes[1].cost_cents) == ("completed", 0)
    bench.check(result)


def test_a_call_that_its_key_answers_is_no_external_call(bench: Bench, stage: Stage) -> None:
    bench.run(charge(stage))
    profile = {"max_external_calls": 1}
    result = bench.run(charge(stage), charge(stage, 2, idempotency_key="other"), profile=profile)
    assert result.status == "completed"
    assert len(stage.ledger.calls()) == 2
    bench.check(result)


# -- people ------------------------------------------------------------------------------------------------------------


def test_nobody_is_asked_about_a_call_that_its_key_answers(bench: Bench, stage: Stage) -> None:
    in_session(bench, stage)
    asked = bench.run(charge(stage), supervisor="ask")
    assert (asked.status, gate_of(bench, asked.run_id)) == ("completed", "key")
    with bench.runtime.session(agent_id=AGENT, context={"supervisor": "ask"}) as session:
        outcome = session.call("act", {"ledger": stage.ledger_path, "value": 1}, idempotency_key="order-42")
    assert outcome.ok
    assert len(stage.ledger.calls()) == 1


def test_a_call_that_waits_for_a_person_is_answered_once_another_was_made(bench: Bench, stage: Stage) -> None:
    waiting = bench.run(charge(stage), supervisor="ask")
    assert waiting.status == "waiting"
    in_session(bench, stage)
    asyncio.run(vote(bench.runtime, waiting.run_id, "s0", approve=False, reason="no"))
    done = bench.runtime.resume(waiting.run_id)
    assert (done.status, gate_of(bench, done.run_id)) == ("completed", "key")
    bench.check(done)


def test_a_call_in_flight_is_waited_for_before_the_supervisor_is_asked(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, under_way, looked = [], asyncio.Event(), asyncio.Event()

    def supervisor(proposal: Proposal) -> bool:
        asked.append(proposal.run_id)
        return True

    @skill("pay", version="1.0.0", tool_class="write")
    async def pay(n: int) -> int:
        under_way.set()
        await looked.wait()
        return n

    bench = Bench(stage.folder, pay, supervisor=supervisor)
    document = plan(step(pay, {"n": 1}, idempotency_key="k"))
    real = bench.store.key_record

    def key_record(*key: str) -> object:
        if under_way.is_set():
            looked.set()
        return real(*key)

    monkeypatch.setattr(bench.store, "key_record", key_record)

    async def one_behind_the_other() -> list[str]:
        first = asyncio.create_task(bench.runtime.run_async(document))
        await under_way.wait()
        second = await bench.runtime.run_async(document)
        return [(await first).status, second.status]

    assert asyncio.run(one_behind_the_other()) == ["completed", "completed"]
    assert len(asked) == 1
    for row in bench.store.runs():
        bench.check(row.run_id)


# -- conflicts ---------------------------------------------------------------------------------------------------------


def test_a_conflict_is_denied_with_the_place_of_the_first_difference(bench: Bench, stage: Stage) -> None:
    bench.run(charge(stage))
    refused = bench.run(charge(stage, 2))
    (outcome,) = refused.outcomes
    assert (refused.status, outcome.code, gate_of(bench, refused.run_id)) == ("failed", "IDEMPOTENCY_CONFLICT", "key")
    assert outcome.details is not None
    assert outcome.details["pointer"] == "/value"
    assert outcome.details["reason"] == "the key was used for another request: it differs at /value"
    assert len(stage.ledger.calls()) == 1
    bench.check(refused)
    recording = load_recording(bench.store, refused.run_id)
    for skills in (Registry(SKILLS), Registry()):
        assert mocked(recording, skills).verdict == "matched"


def test_another_agent_is_told_nothing_of_the_difference(bench: Bench, stage: Stage) -> None:
    bench.run(charge(stage))
    for value in (1, 2):
        outcome = in_session(bench, stage, value, agent_id="somebody else")
        assert outcome.code == "IDEMPOTENCY_CONFLICT"
        assert outcome.details is not None
        assert "pointer" not in outcome.details
        assert "/value" not in str(outcome.details["reason"])
    assert len(stage.ledger.calls()) == 1


def test_of_an_erased_call_only_the_agent_is_compared_and_its_answer_says_that_it_is_gone(
    bench: Bench, stage: Stage
) -> None:
    first = bench.run(charge(stage))
    erase(bench.store, first.run_id, "s0", who="kim", reason="asked")
    again = bench.run(charge(stage))
    other = bench.run(charge(stage, 2))
    assert [run.outcomes[0].output for run in (again, other)] == [{"$erased": True}] * 2
    assert [run.status for run in (again, other)] == ["completed"] * 2
    assert in_session(bench, stage, agent_id="somebody else").code == "IDEMPOTENCY_CONFLICT"
    assert len(stage.ledger.calls()) == 1
    for run in (first, again, other):
        bench.check(run)
    assert ask(bench.path, "SELECT request_digest FROM idempotency WHERE key > ''") == [(None,)]


def test_a_key_in_doubt_is_denied_before_anybody_is_asked(stage: Stage) -> None:
    @skill("pay", version="1.0.0", tool_class="write")
    def pay(n: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return n

    def die() -> None:
        with Bench(stage.folder, pay).runtime.session() as session:
            session.call("pay", {"n": 1}, idempotency_key="k")

    assert in_child(die) == KILLED
    bench = Bench(stage.folder, pay)
    with bench.runtime.session(resume=bench.store.find_run("last").run_id) as session:
        assert session.history()
    with bench.runtime.session(context={"supervisor": "ask"}) as session:
        outcome = session.call("pay", {"n": 1}, idempotency_key="k")
    assert outcome.code == "ERR_IN_DOUBT"
    assert gate_of(bench) == "key"


# -- at the reservation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1, 2])
def test_a_key_that_is_taken_between_gate_and_reservation_is_looked_at_again(
    bench: Bench, stage: Stage, monkeypatch: pytest.MonkeyPatch, value: int
) -> None:
    in_session(bench, stage)
    real, asked = bench.store.key_record, []

    def late(*key: str) -> object:
        asked.append(key)
        return None if len(asked) == 1 else real(*key)

    monkeypatch.setattr(bench.store, "key_record", late)
    result = bench.run(charge(stage, value))
    (trace,) = bench.traces(result.run_id)
    assert gate_of(bench, result.run_id) == "supervisor"
    assert trace.effect is not None
    assert (trace.state, trace.effect.outcome.status) == (
        ("COMPLETED", "SUCCESS") if value == 1 else ("FAILED", "DENIED")
    )
    assert len(stage.ledger.calls()) == 1
    bench.check(result)
    assert mocked(load_recording(bench.store, result.run_id), Registry(SKILLS)).verdict == "matched"


def test_nothing_is_dispatched_under_an_approval_for_an_answer(
    bench: Bench, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a trace is never left open; where one is found all the same, it is held."""
    in_session(bench, stage)

    def left_open(call: Call, known: Answered) -> None:
        call.run.journal.entry(artifacts.decision(call, known))
        call.run.journal.entry(artifacts.tool_call(call, artifacts.idempotency_key(call)))

    def die() -> None:
        monkeypatch.setattr(ending, "answer", left_open)
        Bench(stage.folder, *SKILLS).run(charge(stage))

    assert in_child(die, crash_at="before_dispatch") == KILLED
    (result,) = bench.runtime.recover()
    assert result.status == "held"
    assert "nothing is dispatched" in str(result.reason)
    assert len(stage.ledger.calls()) == 1


# -- replays -----------------------------------------------------------------------------------------------------------


def test_a_run_with_a_key_hit_is_replayed_as_it_was(bench: Bench, stage: Stage) -> None:
    in_session(bench, stage)
    hit = bench.run(charge(stage), step("note", {"ledger": stage.ledger_path, "text": "{{s0.value}} paid"}))
    in_session(bench, stage)
    talk = bench.store.find_run("last").run_id
    for run_id in (hit.run_id, talk):
        recording = load_recording(bench.store, run_id)
        for skills in (Registry(SKILLS), Registry()):
            assert mocked(recording, skills).verdict == "matched"
    before = len(stage.ledger.calls())
    skipped = bench.runtime.replay(hit.run_id, mode="full_replay")
    assert skipped.status == "completed"
    assert len(stage.ledger.calls()) == before
    bench.check(skipped.run_id)
    assert bench.runtime.replay(hit.run_id, mode="dry_run").status == "completed"


def test_full_replays_and_forks_send_under_keys_of_their_own(bench: Bench, stage: Stage) -> None:
    steps = (charge(stage), step("act", {"ledger": stage.ledger_path, "value": 2}))
    original = bench.run(*steps)
    full = bench.runtime.replay(original.run_id, mode="full_replay", execute=["s0", "s1"])
    forked = bench.runtime.fork(original.run_id, at="s0", live=True)
    calls = stage.ledger.calls()
    assert len(calls) == len({call.key for call in calls}) == 6
    for run in (original.run_id, full.run_id, forked.run_id):
        bench.check(run)


# -- runs that began before there were key runs ------------------------------------------------------------------------


@pytest.fixture
def of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs begin as they did then."""
    monkeypatch.setattr(opening, "RunRecord", lambda **known: RunRecord(**{**known, "key_run": UNSET}))


def salted(salt: str, key: str) -> str:
    return "k:" + hmac_hex(bytes.fromhex(salt), key.encode())


@pytest.mark.usefixtures("of_before")
def test_an_open_plan_of_before_goes_on_with_its_keys(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    document: dict[str, Any] = Bench(stage.folder, *SKILLS).runtime.pinned(
        plan(charge(stage), step("act", {"ledger": stage.ledger_path, "value": 2}), charge(stage, idempotency_key="b"))
    )
    assert in_child(lambda: Bench(stage.folder, *SKILLS).runtime.run(document), crash_at="before_dispatch") == KILLED
    monkeypatch.undo()
    bench = Bench(stage.folder, *SKILLS)
    (result,) = bench.runtime.recover()
    assert result.status == "completed"
    salt = document["context"]["pins"]["salt"]
    traces = bench.traces(result.run_id)
    expected = [salted(salt, "order-42"), traces[1].trace_id, salted(salt, "b")]
    assert [call.key for call in stage.ledger.calls()] == expected
    assert [trace.meta("idempotency_source") for trace in traces] == ["caller", "trace", "caller"]
    bench.check(result)
    again = bench.runtime.run(document)  # which is a run of today, with keys of its own
    assert not {call.key for call in stage.ledger.calls()[3:]} & set(expected)
    bench.check(again)


@pytest.mark.usefixtures("of_before")
def test_an_open_session_of_before_goes_on_with_its_keys(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def die() -> None:
        with Bench(stage.folder, *SKILLS).runtime.session() as session:
            session.call("act", {"ledger": stage.ledger_path, "value": 1}, idempotency_key="order-42")
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(die) == KILLED
    monkeypatch.undo()
    bench = Bench(stage.folder, *SKILLS)
    run_id = bench.store.find_run("last").run_id
    with bench.runtime.session(resume=run_id) as session:
        answered = session.call("act", {"ledger": stage.ledger_path, "value": 1}, idempotency_key="order-42")
        own = session.call("act", {"ledger": stage.ledger_path, "value": 2})
    assert answered.output == {"value": 1}
    assert [call.key for call in stage.ledger.calls()][1:] == [own.observability.trace_id]
    bench.check(run_id)
    assert mocked(load_recording(bench.store, run_id), Registry(SKILLS)).verdict == "matched"


# -- the secret of the store -------------------------------------------------------------------------------------------


def test_each_store_has_a_secret_of_its_own_that_no_bundle_holds(tmp_path: Path) -> None:
    benches = [Bench(tmp_path / name, *SKILLS) for name in ("a", "b")]
    secrets = {bench.store.key_secret for bench in benches}
    assert [len(secret) for secret in secrets] == [32, 32]
    assert Runtime(store_at(benches[0].path)).store.key_secret == benches[0].store.key_secret
    result = benches[0].run(step("note", {"ledger": str(tmp_path / "ledger.db"), "text": "x"}, idempotency_key="k"))
    export_run(store_at(benches[0].path), result.run_id, tmp_path / "bundle")
    held = [path.read_bytes() for path in (tmp_path / "bundle").rglob("*") if path.is_file()]
    for form in (benches[0].store.key_secret, benches[0].store.key_secret.hex().encode()):
        assert not any(form in data for data in held)


def test_in_a_file_nobody_changes_the_secret_of_a_store(bench: Bench) -> None:
    with closing(sqlite3.connect(bench.path)) as db:
        for change in (
            "UPDATE key_secret SET secret = x'00'",
            "DELETE FROM key_secret",
            "INSERT OR REPLACE INTO key_secret VALUES (1, x'00')",
            "INSERT OR REPLACE INTO key_secret VALUES (2, x'00')",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                db.execute(change)


def test_with_the_store_every_key_is_computed_again(bench: Bench, stage: Stage) -> None:
    """A secret that is not the one that the keys were made with shows in all of them."""
    runs = [bench.run(charge(stage)), bench.run(step("act", {"ledger": stage.ledger_path, "value": 2}))]
    in_session(bench, stage, key="another")
    runs_of = [*(run.run_id for run in runs), bench.store.find_run("last").run_id]
    for run_id in runs_of:
        bench.check(run_id)
    with closing(sqlite3.connect(bench.path, isolation_level=None)) as db:
        db.execute("DROP TRIGGER key_secret_is_not_updated")
        db.execute("UPDATE key_secret SET secret = zeroblob(32)")
    for run_id in runs_of:
        bench.check(run_id, exit_code=1)
