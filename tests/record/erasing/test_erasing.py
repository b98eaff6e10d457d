"""Values go, bytes and all; the chain stays whole, and a record says who took them out and why."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact.errors import ConcurrentExecution, EvidenceError, LockAcquireFailed, RunNotFound, StoreBusy, UsageError
from reenact.record.export import export_run
from reenact.replay import replay
from reenact.runtime.people.decisions import cancel, vote
from tests.cli.harness import SKILLS, Command, error_line
from tests.engines.places import ask, store_at
from tests.record.erasing.erasing import (
    GOING,
    STAYING,
    bytes_of,
    echo,
    erased,
    is_there,
    lose_the_lease,
    records,
    values_of,
    verified,
    write,
)
from tests.runtime.running import Bench, plan, step
from tests.store.backends import backend_at


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, echo, write, lose_the_lease)


def session_with(bench: Bench, *texts: str) -> str:
    """A session that called `echo` with each text."""
    with bench.runtime.session() as session:
        for text in texts:
            assert session.call("echo", {"text": text}).ok
    return session.run_id


def test_a_whole_run_goes_with_its_plan_bytes_and_all(bench: Bench, tmp_path: Path) -> None:
    result = bench.run(step(echo, {"text": GOING}), step(echo, {"text": {"deep": [STAYING, "{{s0.said}}"]}}))
    other = bench.run(step(echo, {"text": STAYING}))
    assert GOING.encode() in bytes_of(tmp_path), "a grep finds it before"
    count = erased(bench, result.run_id)
    assert count > 0
    assert not is_there(bench)
    log = Path(f"{bench.path}-wal")
    assert not log.exists() or not log.stat().st_size, "the log that held its pages is empty"
    for run in (result, other):
        bench.check(run)
    assert next(done.outcome.message for done in result) == "the value was erased; its commitment still stands"
    assert [done.outcome.output for done in other] == [{"said": STAYING}]


def test_a_step_goes_and_the_others_stay(bench: Bench) -> None:
    """By reference, so that the plan itself does not say it."""
    result = bench.run(
        step(echo, {"text": STAYING}),
        step(echo, {"text": "{{s0.said}} today", "fail": True}, on_error="continue"),
        step(echo, {"text": "yesterday {{s0.said}}"}),
    )
    assert (
        erased(bench, result.run_id, "s1") == 3
    )  # arguments, outcome; the response of a failure is null, as are others
    assert not is_there(bench, f"{STAYING} today")
    assert is_there(bench, f"yesterday {STAYING}")
    bench.check(result)
    codes = [(done.outcome.code, done.outcome.cost_cents) for done in result]
    assert codes == [("OK", 0), ("ERR_INTERNAL", 0), ("OK", 0)], "what the chain says is still told"


def test_records_name_who_why_and_what_and_hold_on_to_each_other(bench: Bench) -> None:
    first, second = bench.run(step(echo, {"text": GOING})), bench.run(step(echo, {"text": GOING}))
    count = erased(bench, first.run_id) + erased(bench, second.run_id)
    found = records(bench.store)
    assert len(found) == count
    assert {(record["who"], record["reason"]) for record in found} == {("privacy@example.com", "request 42")}
    assert {record["run_id"] for record in found} == {first.run_id, second.run_id}
    assert [record["prev"] for record in found] == ["0" * 64, *[record["digest"] for record in found[:-1]]]
    for statement in ("DELETE FROM erasures", "UPDATE erasures SET run_no = 9"):
        with pytest.raises(backend_at(Path(bench.path).parent).refusal, match="append-only"):
            ask(bench.path, statement)


def test_an_envelope_that_is_missing_without_a_record_is_lost(bench: Bench) -> None:
    result = bench.run(step(echo, {"text": GOING}))
    commitment = max(dict(bench.store.payloads(result.run_id)))
    backend_at(Path(bench.path).parent).remove_payload(bench.store, commitment)
    bench.check(result, exit_code=1)


def test_erasing_again_finds_nothing_more(bench: Bench) -> None:
    result = bench.run(step(echo, {"text": GOING}))
    assert erased(bench, result.run_id, "s0") > 0
    assert erased(bench, result.run_id, "s0") == 0
    assert erased(bench, result.run_id) > 0, "the plan"
    assert erased(bench, result.run_id) == 0
    bench.check(result)


def test_an_export_after_an_erasure_verifies_and_says_what_is_gone(bench: Bench, tmp_path: Path) -> None:
    result = bench.run(step(echo, {"text": STAYING}), step(echo, {"text": "{{s0.said}} and more"}))
    before = export_run(store_at(bench.path), result.run_id, tmp_path / "before")
    count = erased(bench, result.run_id, "s1")
    after = export_run(store_at(bench.path), result.run_id, tmp_path / "after")
    assert (before.erased, before.lost) == (0, 0)
    assert (after.erased, after.lost) == (count, 0)
    assert verified(tmp_path / "after").counts.erased == count
    assert b"and more" not in b"".join((tmp_path / "after" / "journal.jsonl").read_bytes().splitlines())
    assert len((tmp_path / "after" / "erasures.jsonl").read_bytes().splitlines()) == count


def test_a_replay_after_an_erasure_still_compares_behaviour(bench: Bench, tmp_path: Path) -> None:
    result = bench.run(
        step(echo, {"text": STAYING}),
        step(echo, {"text": "{{s0.said}}", "fail": True}, on_error="continue"),
        step(write, {"text": "{{s0.said}} again"}),
    )
    for step_id in ("s0", "s1", "s2"):
        erased(bench, result.run_id, step_id)
        again = replay(bench.store, result.run_id, registry=bench.runtime.registry)
        assert again.verdict == "matched", (step_id, again.divergence)
    export_run(store_at(bench.path), result.run_id, tmp_path / "bundle")
    assert replay(bench.store, tmp_path / "bundle", registry=bench.runtime.registry).verdict == "matched"


def test_a_replay_without_its_plan_is_refused_in_so_many_words(bench: Bench) -> None:
    run_id = bench.run(step(echo, {"text": GOING})).run_id
    session = session_with(bench, GOING)
    for gone in (run_id, session):
        erased(bench, gone)
        with pytest.raises(EvidenceError, match="was erased; it cannot be run again"):
            replay(bench.store, gone, registry=bench.runtime.registry)


def test_equal_content_goes_wherever_it_is_named(bench: Bench) -> None:
    """It is stored once, so that it cannot go for one call and stay for another."""
    long = "a long text that is stored once " * 20
    result = bench.run(
        step(echo, {"text": long}), step(echo, {"text": STAYING}), step(echo, {"text": long}, on_error="continue")
    )
    erased(bench, result.run_id, "s0")
    steps = {done.step_id: done.outcome for done in result}
    assert steps["s2"].output is None
    assert steps["s1"].output == {"said": STAYING}
    bench.check(result)


def test_what_a_call_still_needs_is_not_erased(bench: Bench) -> None:
    shared = {"text": "a long text that two calls share " * 20}
    result = bench.runtime.run(plan(step(echo, shared), step(write, shared), supervisor="ask"))
    assert result.status == "waiting"
    with pytest.raises(UsageError, match="step s1, which has not ended, needs a value of step s0"):
        erased(bench, result.run_id, "s0")
    with pytest.raises(UsageError, match="step s1 has not ended; its values cannot be erased yet"):
        erased(bench, result.run_id, "s1")
    with pytest.raises(UsageError, match=r"calls of this run have not ended \(s1\)"):
        erased(bench, result.run_id)
    assert records(bench.store) == []
    asyncio.run(vote(bench.runtime, result.run_id, None, approve=True, reason="fine"))
    assert bench.runtime.resume(result.run_id).status == "completed"
    assert erased(bench, result.run_id, "s0") > 0
    bench.check(result.run_id)


def test_a_run_that_waits_can_lose_a_step_and_go_on_without_it(bench: Bench) -> None:
    result = bench.runtime.run(
        plan(
            step(echo, {"text": STAYING}),
            step(write, {"text": 1}),
            step(echo, {"text": "{{s0.said}}"}),
            supervisor="ask",
        )
    )
    erased(bench, result.run_id, "s0")
    bench.check(result, exit_code=4)
    asyncio.run(vote(bench.runtime, result.run_id, None, approve=True, reason="fine"))
    done = bench.runtime.resume(result.run_id)
    assert [outcome.code for outcome in done.outcomes] == ["OK", "OK", "ERR_REFERENCE_UNRESOLVED"]
    bench.check(done)


def test_nothing_is_erased_from_a_run_that_somebody_works_on(bench: Bench) -> None:
    """Its executor knows where equal content lies, and would name what is gone."""
    with bench.runtime.session() as session:
        session.call("echo", {"text": GOING})
        with pytest.raises(LockAcquireFailed, match="is being worked on"):
            erased(bench, session.run_id, "c1")
        assert session.call("echo", {"text": [GOING]}).ok
    assert erased(bench, session.run_id) > 0
    assert not is_there(bench)
    bench.check(session.run_id)


def test_a_session_that_lost_a_call_ends_and_verifies(bench: Bench) -> None:
    with pytest.raises(ZeroDivisionError), bench.runtime.session() as session:
        session.call("echo", {"text": GOING})
        session.call("echo", {"text": STAYING})
        raise ZeroDivisionError
    erased(bench, session.run_id, "c1")
    assert not is_there(bench)
    with bench.runtime.session(resume=session.run_id) as again:
        assert GOING not in str(again.history())
        assert again.call("echo", {"text": "more"}).ok
    bench.check(session.run_id)
    assert not is_there(bench)


def test_what_people_said_about_a_call_goes_with_it(bench: Bench) -> None:
    result = bench.runtime.run(plan(step(write, {"text": STAYING}), supervisor="ask"))
    asyncio.run(vote(bench.runtime, result.run_id, None, approve=True, reason=f"because of {GOING}"))
    bench.runtime.resume(result.run_id)
    assert is_there(bench)
    erased(bench, result.run_id, "s0")
    assert not is_there(bench)
    bench.check(result.run_id)


def test_why_a_run_was_cancelled_goes_with_the_run(bench: Bench) -> None:
    async def ask() -> str:
        async with bench.runtime.session() as session:
            assert not await cancel(bench.runtime, session.run_id, reason=f"leave {GOING} alone", who="me")
            await session.call("echo", {"text": STAYING})
            return session.run_id

    run_id = asyncio.run(ask())
    assert is_there(bench)
    erased(bench, run_id)
    assert not is_there(bench)
    bench.check(run_id)


def test_what_an_executor_left_behind_goes_with_its_call(bench: Bench) -> None:
    with pytest.raises(ConcurrentExecution):
        bench.run(step(lose_the_lease, {"store": bench.path, "text": f"x {STAYING}"}))
    run_id = bench.store.find_run("last").run_id
    with pytest.raises(backend_at(Path(bench.path).parent).refusal, match="only with an erasure"):
        ask(bench.path, "DELETE FROM late_effects")
    assert bench.runtime.resume(run_id).status == "completed"
    assert is_there(bench, f"x {STAYING}")
    erased(bench, run_id)
    assert not is_there(bench, f"x {STAYING}")
    bench.check(run_id)


def test_a_conversation_that_is_stored_as_what_it_adds_survives_the_loss_of_any_of_its_parts(bench: Bench) -> None:
    """Each call repeats what was said and adds to it; one draft was thrown away, and only that call has it."""
    said = [f"{number}: " + "words that were said before " * 60 for number in range(40)]
    draft = "a draft that nobody kept: " + GOING
    sent: list[list[str]] = []
    with bench.runtime.session() as session:
        for number in range(1, 41):
            sent.append([*said[:number], *([draft] if number == 20 else [])])
            assert session.call("echo", {"text": {"messages": sent[-1]}}).ok
            session.turn()
    deltas = sum(body[:1] == b"\3" for (body,) in ask(bench.path, "SELECT body FROM payloads"))
    assert deltas > 30, "they are stored as differences"
    assert is_there(bench)
    for number in (20, 1, 40, 7, 33):
        erased(bench, session.run_id, f"c{number}")
        bench.check(session.run_id)
    gone = {20, 1, 40, 7, 33}
    for number, outcome in enumerate(bench.runtime.resume(session.run_id).outcomes, start=1):
        wanted = None if number in gone else {"said": {"messages": sent[number - 1]}}
        assert outcome.output == wanted, number
    assert not is_there(bench), "the plan of the session repeats no argument"
    erased(bench, session.run_id)
    assert not is_there(bench)
    assert b"words that were said" not in values_of(bench.path)
    bench.check(session.run_id)


def test_a_reader_that_keeps_the_log_alive_is_told(bench: Bench) -> None:
    result = bench.run(step(echo, {"text": GOING}))
    bench.store._writer.db.execute("PRAGMA busy_timeout = 50")
    with closing(sqlite3.connect(bench.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM payloads").fetchone()
        with pytest.raises(StoreBusy, match="erase again when it has ended"):
            erased(bench, result.run_id)
    assert erased(bench, result.run_id) == 0
    assert not is_there(bench)
    bench.check(result)


def test_a_key_that_was_used_serves_what_is_left(bench: Bench) -> None:
    document = bench.runtime.pinned(plan(step(write, {"text": GOING}, idempotency_key="k")))
    first = bench.runtime.run(document)
    erased(bench, first.run_id)
    second = bench.runtime.run(document)
    (served,) = second.outcomes
    assert served.details is not None
    assert (served.code, served.output, "served_from" in served.details) == ("OK", {"$erased": True}, True)
    bench.check(second)


def test_unknown_steps_and_runs_are_told(bench: Bench) -> None:
    result = bench.run(step(echo, {"text": GOING}))
    with pytest.raises(RunNotFound, match="no step 'nine'"):
        erased(bench, result.run_id, "nine")
    with pytest.raises(RunNotFound):
        erased(bench, "0000")


def test_the_command_asks_erases_and_says_what_stays(tmp_path: Path) -> None:
    reenact = Command(tmp_path)
    plan_file = reenact.plan({"skill_id": "steady", "parameters": {"text": GOING}})
    run_id = reenact("run", plan_file, "--skills", SKILLS, "--json").json["run_id"]
    plan_file.unlink()
    assert "say why" in error_line(reenact("erase", run_id, "s0", "--yes"))
    step_gone = reenact("erase", run_id, "s0", "--yes", "--reason", "request 42", "--who", "privacy@example.com")
    assert step_gone.code == 0, step_gone.err
    assert f"`reenact erase {run_id}` without a step erases it too" in step_gone.out
    assert GOING.encode() in values_of(str(reenact.store)), "the plan still says it"
    run_gone = reenact("erase", run_id, "--yes", "--reason", "request 42", "--json")
    assert run_gone.json["erased"] > 0
    assert GOING.encode() not in bytes_of(tmp_path) + values_of(str(reenact.store))
    assert reenact("verify", run_id).code == 0
    assert reenact("show", run_id, "--values").code == 0


def test_copies_in_replays_are_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path, echo, write)
    result = bench.run(step(echo, {"text": GOING}))
    copy = replay(bench.runtime, result.run_id, mode="full_replay").run_id
    done = Command(tmp_path)("erase", result.run_id, "--yes", "--reason", "request 42")
    assert f"run {copy} replayed this one and holds values of its own: erase it too" in done.out
    erased(bench, copy)
    assert not is_there(bench)
