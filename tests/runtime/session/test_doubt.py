"""A call that a crash left in doubt: what its session does with it, and with its key."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, Runtime, SkillContext, skill
from reenact.contracts.outcome import StructuredOutcome
from reenact.errors import ConcurrentExecution, LockAcquireFailed, WaitingForPerson
from reenact.record.reader import RunReader
from reenact.replay import load_recording
from reenact.runtime.people import decisions as people
from reenact.store.checks.verification import verify_run
from reenact.values.clock import FixedClock
from tests.engines.places import opened, store_at
from tests.replay.recording import Crash, armed, mocked


class Bank:
    """What was really paid, and by which kind of skill."""

    def __init__(self, folder: Path) -> None:
        self.paid: Counter[str] = Counter()
        self.read_back: object = None
        self.clock = FixedClock()
        self.path = folder / "store.db"
        self.runtime = Runtime(opened(self.path, clock=self.clock), skills=self.skills(), clock=self.clock)

    def skills(self) -> Registry:
        def pay(skill_id: str, **declared: Any) -> Any:
            @skill(skill_id, version="1.0.0", tool_class="write", **declared)
            async def pays(ctx: SkillContext, n: int) -> str:
                self.paid[skill_id] += 1
                return f"paid {n} under {ctx.idempotency_key}"

            return pays

        return Registry(
            [
                pay("pay"),
                pay("keyed", honours_key=True),
                pay("hold", in_doubt="hold"),
                pay("asks", in_doubt="reconcile", reconcile=lambda ctx, n: self.read_back),
            ]
        )

    def crashed(self, skill_id: str, point: str = "after_dispatch") -> str:
        """A session that died in its only call; the id."""

        async def die() -> str:
            try:
                async with self.runtime.session() as session:
                    await session.call(skill_id, {"n": 1}, idempotency_key="order-1")
            except Crash:
                return session.run_id
            raise AssertionError("it did not crash")

        with armed(point, 1):
            run_id = asyncio.run(die())
        self.clock.advance(60)
        return run_id

    def resumed(self, run_id: str, skill_id: str) -> StructuredOutcome:
        """The same call under the same key, in the session that goes on."""

        async def go_on() -> StructuredOutcome:
            async with self.runtime.session(resume=run_id) as session:
                return await session.call(skill_id, {"n": 1}, idempotency_key="order-1")

        return asyncio.run(go_on())

    def codes(self, run_id: str) -> list[str]:
        steps = sorted(RunReader(self.runtime.store, run_id).steps(), key=lambda step: step.trace.step_index)
        return [step.outcome().code for step in steps]

    def check(self, run_id: str) -> None:
        """The evidence holds, derived tables too, and a replay decides alike."""
        verified = verify_run(store_at(self.path), run_id)
        assert verified.exit_code == 0, (verified.report.first_break, verified.differences)
        result = mocked(load_recording(self.runtime.store, run_id), self.skills())
        assert result.verdict == "matched", result.divergence


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


def test_a_key_whose_call_is_in_doubt_does_not_pay_twice(bank: Bank) -> None:
    run_id = bank.crashed("pay")
    outcome = bank.resumed(run_id, "pay")
    assert (outcome.code, bank.paid["pay"]) == ("ERR_IN_DOUBT", 1)
    assert outcome.details is not None
    assert "c1" in str(outcome.details["reason"])
    assert bank.codes(run_id) == ["ERR_IN_DOUBT", "ERR_IN_DOUBT"]
    bank.check(run_id)


def test_a_key_in_doubt_with_other_arguments_is_a_conflict_all_the_same(bank: Bank) -> None:
    run_id = bank.crashed("pay")
    with bank.runtime.session(resume=run_id) as session:
        outcome = session.call("pay", {"n": 2}, idempotency_key="order-1")
    assert (outcome.code, bank.paid["pay"]) == ("IDEMPOTENCY_CONFLICT", 1)
    bank.check(run_id)


def test_a_tool_that_honours_the_key_gets_the_call_again_with_the_doubt_on_record(bank: Bank) -> None:
    run_id = bank.crashed("keyed")
    outcome = bank.resumed(run_id, "keyed")
    assert (outcome.code, bank.paid["keyed"]) == ("OK", 2)
    steps = {step.trace.step_id: step.trace for step in RunReader(bank.runtime.store, run_id).steps()}
    assert [attempt.kind for attempt in steps["c2"].attempts] == ["redispatch", "attempt"]
    assert steps["c1"].call is not None
    assert outcome.output == f"paid 1 under {steps['c1'].call.idempotency_key}", "the same key as before"
    bank.check(run_id)


def test_a_session_with_a_call_that_is_held_waits_for_a_person(bank: Bank) -> None:
    run_id = bank.crashed("hold")
    with pytest.raises(WaitingForPerson, match=f"reenact resolve {run_id} c1"):
        bank.resumed(run_id, "hold")
    assert bank.runtime.store.find_run(run_id).status == "held"
    asyncio.run(people.resolve(bank.runtime, run_id, "c1", "succeeded", reason="seen", output="paid, I saw it"))
    outcome = bank.resumed(run_id, "hold")
    assert (outcome.output, bank.paid["hold"]) == ("paid, I saw it", 1)
    bank.check(run_id)


def test_a_held_call_that_a_person_frees_is_sent_again(bank: Bank) -> None:
    run_id = bank.crashed("hold")
    with pytest.raises(WaitingForPerson):
        bank.resumed(run_id, "hold")
    asyncio.run(people.resolve(bank.runtime, run_id, "c1", "redispatch", reason="it did not arrive"))
    outcome = bank.resumed(run_id, "hold")
    assert outcome.details is not None
    assert "served_from" in outcome.details
    assert bank.paid["hold"] == 2
    assert bank.codes(run_id) == ["OK", "OK"]
    bank.check(run_id)


def test_a_held_call_that_a_person_gave_up_leaves_its_key_free(bank: Bank) -> None:
    run_id = bank.crashed("hold")
    asyncio.run(people.resolve(bank.runtime, run_id, "c1", "failed", reason="it did not arrive"))
    assert bank.resumed(run_id, "hold").code == "OK"
    assert bank.paid["hold"] == 2
    bank.check(run_id)


@pytest.mark.parametrize(
    ("read_back", "codes", "paid"),
    [
        ({"done": True, "output": "found"}, ["OK", "OK"], 1),
        ({"done": False}, ["ERR_CANCELLED", "OK"], 2),
    ],
)
def test_a_resumed_session_asks_the_read_back_first(bank: Bank, read_back: object, codes: list[str], paid: int) -> None:
    run_id = bank.crashed("asks")
    bank.read_back = read_back
    bank.resumed(run_id, "asks")
    assert (bank.codes(run_id), bank.paid["asks"]) == (codes, paid)
    bank.check(run_id)


def test_a_read_back_that_cannot_tell_is_for_a_person(bank: Bank) -> None:
    run_id = bank.crashed("asks")
    with pytest.raises(WaitingForPerson, match="could not tell"):
        bank.resumed(run_id, "asks")
    assert bank.paid["asks"] == 1


def take_over(other: Runtime, run_id: str, bank: Bank) -> None:
    """Once it was watched for long enough without a sign of life, and given back at once."""
    with suppress(LockAcquireFailed):
        other.store.acquire(run_id, "another")
    bank.clock.advance(60)
    other.store.release(other.store.acquire(run_id, "another"), "pending")


def test_what_a_fenced_off_executor_left_is_used_when_its_session_goes_on(tmp_path: Path) -> None:
    """The call was in flight when another took the lease: its result lies in `late_effects`."""
    bank = Bank(tmp_path)
    other = Runtime(opened(bank.path, clock=bank.clock), skills=bank.skills(), clock=bank.clock)

    @skill("slow", version="1.0.0", tool_class="write")
    async def slow(ctx: SkillContext, n: int) -> str:
        bank.paid["slow"] += 1
        take_over(other, ctx.run_id, bank)
        return f"paid {n}, late"

    bank.runtime.registry.register(slow)
    other.registry.register(slow)

    async def lose() -> str:
        with pytest.raises(ConcurrentExecution):
            async with bank.runtime.session() as session:
                await session.call("slow", {"n": 1}, idempotency_key="order-1")
        return session.run_id

    run_id = asyncio.run(lose())

    async def go_on() -> StructuredOutcome:
        async with other.session(resume=run_id) as session:
            return await session.call("slow", {"n": 1}, idempotency_key="order-1")

    again = asyncio.run(go_on())
    assert (bank.codes(run_id), again.output, bank.paid["slow"]) == (["OK", "OK"], "paid 1, late", 1)
    reader = RunReader(other.store, run_id)
    assert len(list(reader.steps())) == 2
    events = reader.fold.events
    assert "late" in [event.type for event in events]
    assert "synthesized" not in [event.type for event in events]
    verified = verify_run(store_at(bank.path), run_id)
    assert verified.exit_code == 0, (verified.report.first_break, verified.differences)
    result = mocked(load_recording(other.store, run_id), other.registry)
    assert result.verdict == "matched", result.divergence


def test_a_late_failure_that_would_be_tried_again_ends_the_call_and_nothing_is_sent(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    other = Runtime(opened(bank.path, clock=bank.clock), skills=bank.skills(), clock=bank.clock)

    @skill("shaky", version="1.0.0", tool_class="read", retry={"max_retries": 3, "backoff_base_ms": 0})
    async def shaky(ctx: SkillContext, n: int) -> str:
        bank.paid["shaky"] += 1
        take_over(other, ctx.run_id, bank)
        raise ConnectionResetError("gone")

    bank.runtime.registry.register(shaky)
    other.registry.register(shaky)

    async def lose() -> str:
        with pytest.raises(ConcurrentExecution):
            async with bank.runtime.session() as session:
                await session.call("shaky", {"n": 1}, idempotency_key="order-1")
        return session.run_id

    run_id = asyncio.run(lose())
    with other.session(resume=run_id):
        pass
    assert (bank.codes(run_id), bank.paid["shaky"]) == (["ERR_CANCELLED"], 1)
    result = mocked(load_recording(other.store, run_id), other.registry)
    assert result.verdict == "matched", result.divergence


def leaves(ctx: SkillContext, n: int) -> object:
    raise SystemExit(3)


async def leaves_later(ctx: SkillContext, n: int) -> object:
    raise SystemExit(3)


def not_a_number(ctx: SkillContext, n: int) -> object:
    return {"done": True, "output": float("nan")}


def raises(ctx: SkillContext, n: int) -> object:
    raise ConnectionError("the bank\nis closed")


def says_yes(ctx: SkillContext, n: int) -> object:
    return "yes"


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        (leaves, "raised SystemExit"),
        (leaves_later, "raised SystemExit"),
        (not_a_number, "it raised "),
        (raises, "it raised ConnectionError: the bank\nis closed)"),
        (says_yes, "this was none of them)"),
    ],
)
def test_a_read_back_that_fails_has_not_told_and_the_person_hears_why(tmp_path: Path, hook: Any, why: str) -> None:
    @skill("odd", version="1.0.0", tool_class="write", in_doubt="reconcile", reconcile=hook)
    async def odd(n: int) -> int:
        return n

    bank = Bank(tmp_path)
    bank.runtime.registry.register(odd)
    with armed("after_dispatch", 1), pytest.raises(Crash):
        bank.runtime.run(
            {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "s", "skill_id": "odd", "parameters": {"n": 1}}]}
        )
    bank.clock.advance(60)
    (held,) = bank.runtime.recover()
    assert held.status == "held"
    assert "could not tell whether it happened (" in str(held.reason)
    assert why in str(held.reason)
