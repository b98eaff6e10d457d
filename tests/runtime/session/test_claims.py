"""Whose claim it is: calls side by side, over turns, given up on, and beside writes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, Runtime, skill
from reenact.runtime.session.session import Session
from reenact.store.checks.verification import verify_run
from tests.engines.places import store_at


class Files:
    """A file system whose reads end when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.content = {"f": "old"}
        self.reads: Counter[str] = Counter()
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.runtime = Runtime(store_at(folder / "store.db"), skills=self.skills())

    def skills(self) -> Registry:
        @skill("read", version="1.0.0", tool_class="read", idempotent=True, reads=["file:{name}"])
        async def read(name: str, slow: bool = False) -> dict[str, str]:
            self.reads[name] += 1
            found = self.content.get(name, "")
            if slow:
                self.begun.set()
                await self.may_end.wait()
            return {"text": found}

        @skill("write", version="1.0.0", tool_class="write", writes=["file:{name}"])
        async def write(name: str, text: str, slow: bool = False) -> int:
            if slow:
                self.begun.set()
                await self.may_end.wait()
            self.content[name] = text
            return len(text)

        return Registry([read, write])


def play(folder: Path, work: Callable[[Files, Session], Awaitable[Any]], **options: Any) -> tuple[Files, Any]:
    """What `work` gives, in a session that verifies and replays."""

    async def whole() -> tuple[Files, Any, str]:
        files = Files(folder)
        async with files.runtime.session(**options) as session:
            async with asyncio.timeout(20):
                given = await work(files, session)
        return files, given, session.run_id

    files, given, run_id = asyncio.run(whole())
    assert verify_run(files.runtime.store.url, run_id).exit_code == 0
    result = files.runtime.replay(run_id)
    assert result.ok, result
    return files, given


def test_a_call_that_waits_for_an_equal_one_gets_its_answer_over_the_end_of_a_turn(tmp_path: Path) -> None:
    async def work(files: Files, session: Session) -> list[str]:
        first = asyncio.create_task(session.call("read", {"name": "f", "slow": True}))
        await files.begun.wait()
        second = asyncio.create_task(session.call("read", {"name": "f", "slow": True}))
        await asyncio.sleep(0)
        await session.turn()
        files.begun.clear()
        in_new_turn = asyncio.create_task(session.call("read", {"name": "f", "slow": True}))
        await files.begun.wait()
        files.may_end.set()
        return [outcome.code for outcome in await asyncio.gather(first, second, in_new_turn)]

    files, codes = play(tmp_path, work)
    assert codes == ["OK", "DENIED_DUPLICATE", "OK"]
    assert files.reads == {"f": 2}


def test_what_a_call_of_the_last_turn_returns_is_no_duplicate_in_this_one(tmp_path: Path) -> None:
    async def work(files: Files, session: Session) -> list[str]:
        first = asyncio.create_task(session.call("read", {"name": "f", "slow": True}))
        await files.begun.wait()
        await session.turn()
        files.may_end.set()
        return [(await first).code, (await session.call("read", {"name": "f", "slow": True})).code]

    assert play(tmp_path, work)[1] == ["OK", "OK"]


def test_who_gives_up_waiting_takes_nobody_elses_claim(tmp_path: Path) -> None:
    async def work(files: Files, session: Session) -> list[str]:
        first = asyncio.create_task(session.call("read", {"name": "f", "slow": True}))
        await files.begun.wait()
        waiter = asyncio.create_task(session.call("read", {"name": "f", "slow": True}))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        third = asyncio.create_task(session.call("read", {"name": "f", "slow": True}))
        await asyncio.sleep(0)
        files.may_end.set()
        return [(await first).code, (await third).code]

    files, codes = play(tmp_path, work)
    assert codes == ["OK", "DENIED_DUPLICATE"]
    assert files.reads == {"f": 1}


def test_a_call_that_was_refused_before_the_gate_takes_nobody_elses_claim(tmp_path: Path) -> None:
    async def work(files: Files, session: Session) -> list[str]:
        first = asyncio.create_task(session.call("read", {"name": "f", "slow": True}))
        await files.begun.wait()
        refused = await session.call("read", {"name": "f", "slow": True}, idempotency_key="sk-ant-" + "a" * 40)
        third = asyncio.create_task(session.call("read", {"name": "f", "slow": True}))
        await asyncio.sleep(0)
        files.may_end.set()
        return [refused.code, (await first).code, (await third).code]

    files, codes = play(tmp_path, work)
    assert codes == ["ERR_VALIDATION_FAILED", "OK", "DENIED_DUPLICATE"]
    assert files.reads == {"f": 1}


def test_a_read_during_which_something_was_written_may_be_made_again(tmp_path: Path) -> None:
    async def work(files: Files, session: Session) -> list[Any]:
        slow = asyncio.create_task(session.call("read", {"name": "f", "slow": True}))
        await files.begun.wait()
        await session.call("write", {"name": "f", "text": "new"})
        files.may_end.set()
        old = await slow
        again = await session.call("read", {"name": "f", "slow": True})
        return [old.output, again.output]

    assert play(tmp_path, work)[1] == [{"text": "old"}, {"text": "new"}]


def test_a_write_of_the_last_turn_forgets_the_reads_of_this_one(tmp_path: Path) -> None:
    async def work(files: Files, session: Session) -> list[Any]:
        slow = asyncio.create_task(session.call("write", {"name": "f", "text": "new", "slow": True}))
        await files.begun.wait()
        await session.turn()
        old = await session.call("read", {"name": "f"})
        files.may_end.set()
        await slow
        return [old.output, (await session.call("read", {"name": "f"})).output]

    assert play(tmp_path, work)[1] == [{"text": "old"}, {"text": "new"}]


def test_who_changes_an_output_does_not_change_what_a_denial_carries(tmp_path: Path) -> None:
    async def work(files: Files, session: Session) -> list[Any]:
        first = await session.call("read", {"name": "f"})
        first.output["text"] = "changed"
        second = await session.call("read", {"name": "f"})
        second.output["text"] = "changed too"
        third = await session.call("read", {"name": "f"})
        return [second.code, third.code, third.output]

    assert play(tmp_path, work, duplicate_output=True)[1] == ["DENIED_DUPLICATE", "DENIED_DUPLICATE", {"text": "old"}]


def test_what_a_resumed_session_remembers_holds_no_read_that_a_write_overtook(tmp_path: Path) -> None:
    async def whole() -> list[str]:
        files = Files(tmp_path)
        with pytest.raises(ZeroDivisionError):
            async with files.runtime.session() as session:
                slow = asyncio.create_task(session.call("read", {"name": "f", "slow": True}))
                await files.begun.wait()
                await session.call("write", {"name": "f", "text": "new"})
                files.may_end.set()
                await slow
                await session.call("read", {"name": "f"})
                _ = 1 / 0
        async with files.runtime.session(resume=session.run_id) as again:
            return [
                (await again.call("read", {"name": "f", "slow": True})).code,
                (await again.call("read", {"name": "f"})).code,
            ]

    assert asyncio.run(whole()) == ["OK", "DENIED_DUPLICATE"]
