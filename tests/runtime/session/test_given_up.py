"""A call that its own caller gave up on is in doubt as after a crash, and settled by the same rules."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.errors import WaitingForPerson
from reenact.record.reader import RunReader
from reenact.runtime.people import decisions as people
from reenact.runtime.session.session import Session
from reenact.store.checks.verification import verify_run
from tests.engines.places import store_at


class Bank:
    """Pays; the first answer never comes."""

    def __init__(self, folder: Path, **declared: Any) -> None:
        self.keys: list[str] = []
        self.begun = asyncio.Event()

        @skill("pay", version="1.0.0", tool_class="write", **declared)
        async def pay(ctx: SkillContext, cents: int) -> int:
            self.keys.append(ctx.idempotency_key)
            self.begun.set()
            if len(self.keys) == 1:
                await asyncio.Event().wait()
            return cents

        self.runtime = Runtime(store_at(folder / "store.db"), skills=[pay])

    @asynccontextmanager
    async def gave_up(self) -> AsyncIterator[Session]:
        """A session whose caller has cancelled its only call, after it was sent."""
        async with self.runtime.session() as session:
            call = asyncio.create_task(session.call("pay", {"cents": 5}))
            await self.begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            yield session

    def kinds(self, run_id: str) -> list[str]:
        (step,) = RunReader(self.runtime.store, run_id).steps()
        return [attempt.kind for attempt in step.trace.attempts]

    def assert_sound(self, run_id: str) -> None:
        assert verify_run(self.runtime.store.url, run_id).report.exit_code == 0


def test_it_is_sent_again_only_with_the_doubt_on_record(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank(tmp_path)
        async with bank.gave_up() as session:
            assert [outcome.code for outcome in await session.settle()] == ["OK"]
        assert len(set(bank.keys)) == 1
        assert bank.kinds(session.run_id) == ["redispatch", "attempt"]
        bank.assert_sound(session.run_id)
        assert (await bank.runtime.replay_async(session.run_id)).matches

    asyncio.run(scenario())


def test_one_that_may_not_be_sent_twice_is_not_and_the_run_is_held(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank(tmp_path, in_doubt="hold")
        async with bank.gave_up() as session:
            with pytest.raises(WaitingForPerson, match="step c1 is in doubt") as held:
                await session.settle()
            assert (held.value.status, held.value.run_id, held.value.step_id) == ("held", session.run_id, "c1")
        assert len(bank.keys) == 1
        assert bank.runtime.store.find_run(session.run_id).status == "held"

        await people.resolve(bank.runtime, session.run_id, "c1", "succeeded", reason="seen", output=5)
        async with bank.runtime.session(resume=session.run_id):
            pass
        assert len(bank.keys) == 1
        bank.assert_sound(session.run_id)

    asyncio.run(scenario())


def test_one_that_can_be_read_back_is_read_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank(tmp_path, in_doubt="reconcile", reconcile=lambda ctx, cents: {"done": True, "output": cents})
        async with bank.gave_up() as session:
            assert [outcome.output for outcome in await session.settle()] == [5]
        assert (len(bank.keys), bank.kinds(session.run_id)) == (1, ["lost", "attempt"])
        bank.assert_sound(session.run_id)

    asyncio.run(scenario())


def test_one_that_nobody_settles_keeps_its_session_from_being_sealed(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank(tmp_path, in_doubt="hold")
        async with bank.gave_up() as session:
            pass
        (step,) = RunReader(bank.runtime.store, session.run_id).steps()
        assert (step.trace.state, bank.kinds(session.run_id), len(bank.keys)) == ("EXECUTING", ["lost"], 1)
        assert bank.runtime.store.find_run(session.run_id).status == "held"

    asyncio.run(scenario())


def test_one_that_may_be_sent_twice_ends_in_doubt_with_its_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank(tmp_path)
        async with bank.gave_up() as session:
            pass
        (step,) = RunReader(bank.runtime.store, session.run_id).steps()
        assert (step.outcome().code, len(bank.keys)) == ("ERR_IN_DOUBT", 1)
        bank.assert_sound(session.run_id)

    asyncio.run(scenario())


class SlowBank:
    """Pays in a thread, and answers when it is told to."""

    def __init__(self, folder: Path, **declared: Any) -> None:
        self.paid = 0
        self.begun, self.answers = threading.Event(), threading.Event()

        @skill("pay", version="1.0.0", tool_class="write", **declared)
        def pay(ctx: SkillContext, cents: int) -> int:
            self.paid += 1
            ctx.side_effect("payment", "bank")
            self.begun.set()
            self.answers.wait(60)
            if cents < 0:
                raise ConnectionError("refused")
            return cents

        self.runtime = Runtime(store_at(folder / "store.db"), skills=[pay])

    async def given_up(self, session: Session, cents: int = 5) -> None:
        call = asyncio.create_task(session.call("pay", {"cents": cents}))
        await asyncio.to_thread(self.begun.wait)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    def check(self, run_id: str) -> list[str]:
        """Kinds of the attempts."""
        assert verify_run(self.runtime.store.url, run_id).report.exit_code == 0
        (step,) = RunReader(self.runtime.store, run_id).steps()
        return [attempt.kind for attempt in step.trace.attempts]


@pytest.mark.parametrize("in_doubt", ["redispatch", "hold"])
def test_what_its_thread_gives_in_the_end_is_its_result_and_nothing_is_sent_again(
    tmp_path: Path, in_doubt: str
) -> None:
    async def scenario() -> None:
        bank = SlowBank(tmp_path, in_doubt=in_doubt)
        async with bank.runtime.session() as session:
            await bank.given_up(session)
            asyncio.get_running_loop().call_later(0.05, bank.answers.set)
            (outcome,) = await session.settle()
        assert (outcome.code, outcome.output, bank.paid) == ("OK", 5, 1)
        assert [effect.target for effect in outcome.side_effects] == ["bank"]
        kinds = ["attempt"] if in_doubt == "redispatch" else ["lost", "attempt"]
        assert bank.check(session.run_id) == kinds
        assert (await bank.runtime.replay_async(session.run_id)).matches

    asyncio.run(scenario())


def test_its_failure_is_its_result_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = SlowBank(tmp_path)
        async with bank.runtime.session() as session:
            await bank.given_up(session, cents=-1)
            bank.answers.set()
            (outcome,) = await session.settle()
        assert (outcome.ok, outcome.message, bank.paid) == (False, "refused", 1)
        bank.check(session.run_id)

    asyncio.run(scenario())


def test_it_is_not_sent_again_while_its_thread_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = SlowBank(tmp_path, timeout_ms=100)
        async with bank.runtime.session() as session:
            await bank.given_up(session)
            with pytest.raises(WaitingForPerson, match="it still runs in this process"):
                await session.settle()
            assert bank.paid == 1
            bank.answers.set()
            (outcome,) = await session.settle()
        assert (outcome.output, bank.paid) == (5, 1)
        bank.check(session.run_id)

    asyncio.run(scenario())


def test_a_block_does_not_wait_for_what_was_given_up_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = SlowBank(tmp_path)
        async with bank.runtime.session() as session:
            await bank.given_up(session)
        (step,) = RunReader(bank.runtime.store, session.run_id).steps()
        assert (step.outcome().code, bank.paid) == ("ERR_IN_DOUBT", 1)
        bank.answers.set()
        bank.check(session.run_id)

    asyncio.run(scenario())
