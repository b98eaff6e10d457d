"""A write whose answer is lost while its process lives is in doubt, is not sent twice, and its record says so."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reenact import StructuredOutcome
from reenact.errors import LockAcquireFailed, UnsealedRecording, WaitingForPerson
from reenact.record.reader import RecordedStep, RunReader, steps_of
from reenact.runtime.people import decisions as people
from tests.crash.harness import in_child
from tests.runtime.call.lossy_bank import SKILLS, Bank, bank_on_loopback
from tests.runtime.running import Bench, plan

CENT = 10_000_000_000
IN_DOUBT = ("failure", "ERR_IN_DOUBT", False)


@pytest.fixture
def bank() -> Iterator[Bank]:
    with bank_on_loopback() as found:
        yield found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, *SKILLS)


def shown(outcome: StructuredOutcome) -> tuple[str, str, bool]:
    return outcome.status, outcome.code, outcome.retryable


def cause(outcome: StructuredOutcome) -> str:
    return str((outcome.details or {})["cause"])


def recorded(bench: Bench, run_id: str) -> dict[str, RecordedStep]:
    return {found.step_id: found for found in RunReader(bench.store, run_id).steps()}


def kinds(bench: Bench, run_id: str, step_id: str = "c1") -> list[str]:
    return [record.kind for record in recorded(bench, run_id)[step_id].trace.attempts]


def status(bench: Bench, run_id: str) -> str:
    return bench.store.find_run(run_id).status


def resolve(bench: Bench, run_id: str, said: people.Resolution = "succeeded", step_id: str = "c1") -> None:
    output = {"seen": True} if said == "succeeded" else None
    asyncio.run(people.resolve(bench.runtime, run_id, step_id, said, reason="I looked", output=output))


def ended(bench: Bench, run_id: str) -> None:
    """The session goes on without a call, and is sealed; all holds, and a replay agrees."""
    with bench.runtime.session(resume=run_id):
        pass
    assert status(bench, run_id) == "completed"
    bench.check(run_id)
    result = bench.runtime.replay(run_id)
    assert result.matches, result.divergence


# -- what is a lost answer ---------------------------------------------------------------------------------------------

WAYS = [
    ("hold", "slow", "its thread still runs"),
    ("hold", "cut", "Remote end closed"),
    ("hold", "reset", "reset"),
    ("hold", "half", "IncompleteRead"),
    ("hold_async", "slow", "no answer within 400 ms"),
    ("hold_async", "half", "bytes read"),
    ("hold_child", "die", "ended without an answer (signal 9)"),
]


@pytest.mark.parametrize(("skill_id", "how", "why"), WAYS, ids=str)
def test_a_write_whose_answer_is_lost_is_in_doubt_until_a_person_tells(
    bench: Bench, bank: Bank, skill_id: str, how: str, why: str
) -> None:
    called = {"url": bank.url, "how": how}
    with bench.runtime.session() as session:
        first = session.call(skill_id, called, idempotency_key="order-1")
        assert shown(first) == IN_DOUBT
        assert why in cause(first)
        assert first.message.startswith("Do not call this again.")
        again = session.call(skill_id, called, idempotency_key="order-1")
        assert again.code == "ERR_IN_DOUBT"
        assert session.call("note", {"text": "it goes on"}).ok
        assert status(bench, session.run_id) == "held"
    run_id = session.run_id
    assert (status(bench, run_id), len(bank.paid), kinds(bench, run_id)) == ("held", 1, ["lost"])
    bench.check(run_id, exit_code=4)
    with pytest.raises(UnsealedRecording):
        bench.runtime.replay(run_id)
    resolve(bench, run_id)
    assert status(bench, run_id) == "pending"
    with bench.runtime.session(resume=run_id) as session:
        served = session.call(skill_id, called, idempotency_key="order-1")
        assert (served.output, len(bank.paid)) == ({"seen": True}, 1)
    ended_run = bench.runtime.replay(run_id)
    assert ended_run.matches, ended_run.divergence
    assert ended_run.get_step("c1").outcome == first, "what its caller got before it called again"
    bench.check(run_id)


def test_a_person_who_says_that_it_failed_frees_its_key(bench: Bench, bank: Bank) -> None:
    with bench.runtime.session() as session:
        session.call("hold", {"url": bank.url, "how": "cut"}, idempotency_key="order-1")
    resolve(bench, session.run_id, "failed")
    given_up = steps_of(bench.store, session.run_id)["c1"].outcome()
    assert (given_up.code, given_up.status, given_up.retryable) == ("ERR_CANCELLED", "failure", False)
    assert "may have happened" not in str(given_up.as_message("1")["content"]), "a person knows: nobody is in doubt"
    with bench.runtime.session(resume=session.run_id) as session:
        assert session.call("hold", {"url": bank.url, "how": "ok"}, idempotency_key="order-1").ok
    assert len(bank.paid) == 2
    bench.check(session.run_id)
    assert bench.runtime.replay(session.run_id).matches


def test_a_person_who_says_to_send_it_again_is_heard_once(bench: Bench, bank: Bank) -> None:
    with bench.runtime.session() as session:
        session.call("hold", {"url": bank.url, "how": "cut"})
    run_id = session.run_id
    resolve(bench, run_id, "redispatch")
    with pytest.raises(WaitingForPerson), bench.runtime.session(resume=run_id, interrupted="settle"):
        pass
    assert (len(bank.paid), kinds(bench, run_id)) == (2, ["lost", "redispatch", "lost"])
    resolve(bench, run_id)
    ended(bench, run_id)


@pytest.mark.parametrize(
    ("skill_id", "code"), [("again", "ERR_TIMEOUT"), ("keyed", "ERR_TIMEOUT"), ("read", "ERR_TIMEOUT")]
)
def test_what_may_be_sent_again_fails_as_before(bench: Bench, bank: Bank, skill_id: str, code: str) -> None:
    with bench.runtime.session() as session:
        outcome = session.call(skill_id, {"url": bank.url, "how": "slow"}, idempotency_key="order-1")
    assert shown(outcome) == ("failure", code, True)
    assert (status(bench, session.run_id), kinds(bench, session.run_id)) == ("completed", ["attempt"])
    bench.check(session.run_id)


def test_before_anything_was_sent_nothing_is_lost(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    with bench.runtime.session() as session:
        outcome = session.call("hold", {"url": url, "how": "ok"}, idempotency_key="order-1")
    assert shown(outcome) == ("failure", "ERR_CONNECTION_REFUSED", True)
    assert status(bench, session.run_id) == "completed"


def test_a_caller_that_gives_up_leaves_a_doubt_on_record(bench: Bench, bank: Bank) -> None:
    async def work() -> str:
        async with bench.runtime.session() as session:
            called = {"url": bank.url, "how": "slow"}
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await session.call("hold_async", called, idempotency_key="order-1")
            again = await session.call("hold_async", called, idempotency_key="order-1")
            assert again.code == "ERR_IN_DOUBT"
            return session.run_id

    run_id = asyncio.run(work())
    assert (status(bench, run_id), len(bank.paid), kinds(bench, run_id)) == ("held", 1, ["lost"])
    (loss,) = recorded(bench, run_id)["c1"].trace.attempts
    assert loss.facts is not None
    assert [link.type for link in loss.facts.exceptions] == ["asyncio.exceptions.CancelledError"]
    bench.check(run_id, exit_code=4)
    resolve(bench, run_id, "failed")
    ended(bench, run_id)


# -- what is asked at once ---------------------------------------------------------------------------------------------


def test_a_read_back_that_finds_it_is_the_answer(bench: Bench, bank: Bank) -> None:
    with bench.runtime.session() as session:
        outcome = session.call("asks", {"url": bank.url, "how": "cut"}, idempotency_key="order-1")
    assert (outcome.code, outcome.output, len(bank.paid)) == ("OK", {"found": True}, 1)
    assert kinds(bench, session.run_id) == ["attempt"]
    bench.check(session.run_id)
    assert bench.runtime.replay(session.run_id).matches


def test_a_read_back_that_finds_nothing_makes_it_a_failure_like_any_other(
    bench: Bench, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank, "paid", NeverThere())
    with bench.runtime.session() as session:
        outcome = session.call("asks", {"url": bank.url, "how": "cut"})
    assert shown(outcome) == ("failure", "ERR_CONNECTION_REFUSED", True)
    assert (outcome.details or {})["read_back"] == "it did not happen"
    assert status(bench, session.run_id) == "completed"
    assert bench.runtime.replay(session.run_id).matches


class NeverThere(list[str]):
    def __contains__(self, _: object) -> bool:
        return False


def test_a_read_back_that_cannot_tell_is_asked_again_at_the_end_of_the_block(bench: Bench, bank: Bank) -> None:
    bank.knows = False
    with bench.runtime.session() as session:
        outcome = session.call("asks", {"url": bank.url, "how": "cut"}, idempotency_key="order-1")
        assert shown(outcome) == IN_DOUBT
        session.call("note", {"text": "x"})
        bank.knows = True
    run_id = session.run_id
    assert (status(bench, run_id), kinds(bench, run_id)) == ("completed", ["lost", "attempt"])
    assert recorded(bench, run_id)["c1"].outcome().output == {"found": True}
    bench.check(run_id)
    result = bench.runtime.replay(run_id)
    assert result.matches, result.divergence
    assert result.get_step("c1").outcome == outcome


def test_a_thread_that_answers_late_ends_its_call_with_what_it_got(bench: Bench, bank: Bank) -> None:
    with bench.runtime.session() as session:
        assert shown(session.call("hold", {"url": bank.url, "how": "slow"})) == IN_DOUBT
        assert session.spent_exact == 0
        bank.open.set()
        (outcome,) = session.settle()
        assert outcome.output == {"paid": True}
        assert session.spent_exact == 4 * CENT
        session.call("note", {"text": "x"})
        assert status(bench, session.run_id) == "running"
    run_id = session.run_id
    assert (status(bench, run_id), len(bank.paid)) == ("completed", 1)
    assert kinds(bench, run_id) == ["lost", "attempt"]
    assert [record.attempt for record in recorded(bench, run_id)["c1"].trace.attempts] == [0, 0]
    bench.check(run_id)
    result = bench.runtime.replay(run_id)
    assert result.matches, result.divergence
    assert result.get_step("c1").outcome.ok, "nothing was called before its effect"


def test_a_thread_that_answers_after_its_plan_was_held_ends_the_call_when_that_goes_on(
    bench: Bench, bank: Bank
) -> None:
    held = bench.run({"step_id": "pay", "skill_id": "hold", "parameters": {"url": bank.url, "how": "slow"}})
    assert held.status == "held"
    bank.open.set()
    assert bench.runtime.resume(held.run_id).status == "completed"
    assert (len(bank.paid), kinds(bench, held.run_id, "pay")) == (1, ["lost", "attempt"])
    bench.check(held)
    assert bench.runtime.replay(held.run_id).matches


# -- plans -------------------------------------------------------------------------------------------------------------


def test_a_plan_is_held_and_goes_on_once_a_person_has_told(bench: Bench, bank: Bank) -> None:
    pay = {"step_id": "pay", "skill_id": "hold", "parameters": {"url": bank.url, "how": "cut"}}
    then = {"step_id": "then", "skill_id": "note", "parameters": {"text": "seen: {{pay.seen}}"}}
    held = bench.run(pay, then)
    assert held.status == "held"
    assert f"reenact resolve {held.run_id} pay" in str(held.reason)
    bench.check(held, exit_code=4)
    for _ in range(2):
        (again,) = bench.runtime.recover()
        assert (again.status, len(bank.paid), kinds(bench, held.run_id, "pay")) == ("held", 1, ["lost"])
    resolve(bench, held.run_id, step_id="pay")
    assert bench.runtime.resume(held.run_id).status == "completed"
    bench.check(held)
    assert bench.runtime.replay(held.run_id).matches


def test_a_run_that_is_cancelled_is_sealed_over_the_open_call(bench: Bench, bank: Bank) -> None:
    with bench.runtime.session() as session:
        session.call("hold", {"url": bank.url, "how": "cut"}, idempotency_key="order-1")
        session.call("note", {"text": "x"})
    run_id = session.run_id
    assert asyncio.run(people.cancel(bench.runtime, run_id, reason="enough"))
    assert status(bench, run_id) == "cancelled"
    bench.check(run_id)
    result = bench.runtime.replay(run_id)
    assert (result.exit_code, result.status) == (4, "held")


def test_a_session_that_is_asked_to_stop_is_sealed_over_the_open_call(bench: Bench, bank: Bank) -> None:
    with bench.runtime.session() as session:
        session.call("hold", {"url": bank.url, "how": "cut"}, idempotency_key="order-1")
        assert not asyncio.run(people.cancel(bench.runtime, session.run_id, reason="enough"))
        session.call("note", {"text": "x"})
    assert status(bench, session.run_id) == "cancelled"
    assert kinds(bench, session.run_id) == ["lost"]
    bench.check(session.run_id)


# -- money -------------------------------------------------------------------------------------------------------------


def test_what_it_may_cost_stays_reserved_in_its_run(bench: Bench, bank: Bank) -> None:
    with bench.runtime.session(budget_cents=7) as session:
        session.call("hold", {"url": bank.url, "how": "cut"})
        refused = session.call("hold", {"url": bank.url, "how": "ok"})
        assert refused.code == "ERR_BUDGET_EXCEEDED"
    resolve(bench, session.run_id, "failed")
    with bench.runtime.session(resume=session.run_id) as session:
        assert session.call("hold", {"url": bank.url, "how": "ok"}).ok
    bench.check(session.run_id)


def test_what_it_may_cost_counts_for_other_runs_without_a_lease(bench: Bench, bank: Bank) -> None:
    limited = {"budget": {"per_day_cents": 7}}
    pay = {"url": bank.url, "how": "ok"}
    with bench.runtime.session(agent_id="agent", context=limited) as session:
        session.call("hold", {"url": bank.url, "how": "cut"})
    assert status(bench, session.run_id) == "held"
    with bench.runtime.session(agent_id="agent", context=limited) as other:
        assert other.call("hold", pay).code == "ERR_BUDGET_EXCEEDED"
    resolve(bench, session.run_id, "failed")
    with bench.runtime.session(agent_id="agent", context=limited) as other:
        assert other.call("hold", pay).ok


def test_it_counts_although_its_process_died(tmp_path: Path, bank: Bank) -> None:
    limited = {"budget": {"per_day_cents": 7}}

    def die() -> None:
        with Bench(tmp_path, *SKILLS).runtime.session(agent_id="agent", context=limited) as session:
            session.call("hold", {"url": bank.url, "how": "cut"})
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(die) == signal.SIGKILL
    bench = Bench(tmp_path, *SKILLS)
    with bench.runtime.session(agent_id="agent", context=limited) as other:
        assert other.call("hold", {"url": bank.url, "how": "ok"}).code == "ERR_BUDGET_EXCEEDED"


# -- started again, from several processes -----------------------------------------------------------------------------


def agent(bench: Bench, bank: Bank, skill_id: str, how: str) -> list[StructuredOutcome]:
    with bench.runtime.session(id="order-42") as session:
        first = session.call(skill_id, {"url": bank.url, "how": how}, idempotency_key="order-42")
        return [first, session.call("note", {"text": first.code})]


def test_a_program_that_is_started_again_gets_what_it_got(bench: Bench, bank: Bank) -> None:
    told = agent(bench, bank, "hold", "cut")
    assert shown(told[0]) == IN_DOUBT
    for _ in range(3):
        assert agent(bench, bank, "hold", "cut") == told
    run_id = bench.store.find_run("last").run_id
    assert (status(bench, run_id), kinds(bench, run_id, "main:1"), len(bank.paid)) == ("held", ["lost"], 1)
    resolve(bench, run_id, step_id="main:1")
    assert agent(bench, bank, "hold", "cut") == told, "it went on before anybody had told"
    assert (status(bench, run_id), len(bank.paid)) == ("completed", 1)
    assert agent(bench, bank, "hold", "cut") == told
    bench.check(run_id)
    assert bench.runtime.replay(run_id).matches


def test_a_program_that_had_nothing_more_to_ask_gets_what_came_of_it_from_then_on(bench: Bench, bank: Bank) -> None:
    def program() -> StructuredOutcome:
        with bench.runtime.session(id="order-42") as session:
            outcome: StructuredOutcome = session.call("hold", {"url": bank.url, "how": "cut"})
            return outcome

    told = program()
    assert shown(told) == IN_DOUBT
    assert program() == told, "nobody has looked yet"
    run_id = bench.store.find_run("order-42").run_id
    resolve(bench, run_id, step_id="main:1")
    known = program()
    assert (known.code, known.output) == ("OK", {"seen": True})
    assert status(bench, run_id) == "completed"
    for _ in range(3):
        assert program() == known
    assert len(bank.paid) == 1
    bench.check(run_id)
    assert bench.runtime.replay(run_id).matches


@pytest.mark.parametrize("skill_id", ["hold", "asks"])
def test_a_call_in_which_its_process_died_is_told_as_lost_once(tmp_path: Path, bank: Bank, skill_id: str) -> None:
    bank.knows = False

    def die() -> None:
        agent(Bench(tmp_path, *SKILLS), bank, skill_id, "ok")

    assert in_child(die, crash_at="after_dispatch") == signal.SIGKILL
    bench = Bench(tmp_path, *SKILLS)
    told = agent(bench, bank, skill_id, "ok")
    assert shown(told[0]) == IN_DOUBT
    assert "its process died" in cause(told[0])
    assert agent(bench, bank, skill_id, "ok") == told
    run_id = bench.store.find_run("last").run_id
    assert (kinds(bench, run_id, "main:1"), len(bank.paid)) == (["lost"], 1)
    bench.check(run_id, exit_code=4)
    resolve(bench, run_id, step_id="main:1")
    assert agent(bench, bank, skill_id, "ok") == told
    bench.check(run_id)
    assert bench.runtime.replay(run_id).matches


PROCESSES, REPEATS = 4, int(os.environ.get("LOST_REPEATS", "6"))


@pytest.mark.parametrize(
    ("skill_id", "how"), [("hold", "cut"), ("hold", "slow"), ("asks", "cut"), ("hold_child", "die")]
)
def test_one_effect_however_often_four_processes_start_it(tmp_path: Path, bank: Bank, skill_id: str, how: str) -> None:
    """Under one id, and as a pinned plan with one key."""
    bank.knows = False
    pay = {"skill_id": skill_id, "parameters": {"url": bank.url, "how": how}, "idempotency_key": "order-43"}
    pinned = Bench(tmp_path, *SKILLS).runtime.pinned(plan(pay))

    def repeat() -> None:
        bench = Bench(tmp_path, *SKILLS)
        for _ in range(REPEATS):
            while True:
                try:
                    assert agent(bench, bank, skill_id, how)[0].code == "ERR_IN_DOUBT"
                    break
                except LockAcquireFailed:
                    time.sleep(0.01)
            result = bench.runtime.run(pinned)
            codes = [outcome.code for outcome in result.outcomes]
            assert result.status == "held" or codes == ["ERR_IN_DOUBT"], (result.status, codes)

    assert side_by_side(repeat) == [0] * PROCESSES
    assert len(bank.paid) == len(set(bank.paid)) == 2
    bench = Bench(tmp_path, *SKILLS)
    held = [row for row in bench.store.runs() if row.status == "held"]
    assert len(held) == 2
    for row in bench.store.runs():
        bench.check(row.run_id, exit_code=4 if row.status == "held" else 0)


@pytest.mark.parametrize("skill_id", ["hold", "hold_async", "asks"])
def test_one_effect_however_often_four_processes_give_up_on_it(tmp_path: Path, bank: Bank, skill_id: str) -> None:
    """The caller is cancelled in every start, and the program goes on without the answer."""
    bank.knows = False

    async def gives_up(bench: Bench) -> str:
        async with bench.runtime.session(id="order-44") as session:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await session.call(skill_id, {"url": bank.url, "how": "slow"}, idempotency_key="order-44")
            return (await session.call("note", {"text": "it goes on"})).code

    def repeat() -> None:
        bench = Bench(tmp_path, *SKILLS)
        for _ in range(REPEATS):
            while True:
                try:
                    assert asyncio.run(gives_up(bench)) == "OK"
                    break
                except LockAcquireFailed:
                    time.sleep(0.01)

    assert side_by_side(repeat) == [0] * PROCESSES
    assert len(bank.paid) <= 1, "none where the first start gave up before it was sent"
    bench = Bench(tmp_path, *SKILLS)
    (row,) = bench.store.runs()
    bench.check(row.run_id, exit_code=4 if row.status == "held" else 0)


def side_by_side(work: Any) -> list[int]:
    children = []
    for _ in range(PROCESSES):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = in_child(work)
            finally:  # whatever fails, a child goes through no more tests
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
