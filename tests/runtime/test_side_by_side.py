"""Runs and calls at the same time: one writer, one journal each, and nobody's trouble is another's."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from reenact import SkillContext, skill
from reenact.errors import StoreError
from reenact.store.base import Store
from tests.crash.harness import Stage, in_child
from tests.runtime.running import Bench, plan, step


@skill("echo", version="1.0.0", tool_class="read")
async def echo(text: str, pause: float = 0.0) -> dict[str, str]:
    """Gives back what it got, in its own time."""
    await asyncio.sleep(pause)
    return {"text": text}


def test_sessions_with_many_calls_in_flight_share_one_writer_and_verify(tmp_path: Path) -> None:
    bench = Bench(tmp_path, echo)

    async def one(number: int) -> str:
        async with bench.runtime.session(goal="many at once", agent_id=f"agent-{number}") as s:
            for turn in range(3):
                texts = ["the same text, long enough to be found again " * 8, f"turn {turn}"] * 6
                calls = [s.call("echo", {"text": text, "pause": 0.001 * (i % 3)}) for i, text in enumerate(texts)]
                outcomes = await asyncio.gather(*calls)
                assert [outcome.code for outcome in outcomes] == ["OK"] * len(texts)
                assert [outcome.output for outcome in outcomes] == [{"text": text} for text in texts]
                await s.turn()
        return s.run_id

    async def several() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(4)))

    for run_id in asyncio.run(several()):
        bench.check(run_id)
        assert len(bench.traces(run_id)) == 36


def test_thirty_runs_at_once_are_as_whole_as_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path, echo)
    plans = [plan(*(step(echo, {"text": f"{n} {k}"}) for k in range(5))) for n in range(30)]
    for result in bench.gather(*plans):
        assert result.status == "completed"
        bench.check(result)


def test_a_call_that_is_cancelled_leaves_its_session_whole(tmp_path: Path) -> None:
    """At whatever moment: in the skill, or while its commit is on its way."""
    bench = Bench(tmp_path, echo)

    async def one(delay: float) -> str:
        async with bench.runtime.session(goal="give up early") as s:
            calls = [asyncio.ensure_future(s.call("echo", {"text": str(n), "pause": 0.002})) for n in range(8)]
            await asyncio.sleep(delay)
            for call in calls[::2]:
                call.cancel()
            kept = await asyncio.gather(*calls, return_exceptions=True)
            assert all(not isinstance(each, Exception) for each in kept)
            assert (await s.call("echo", {"text": "after"})).ok
        return s.run_id

    async def several() -> list[str]:
        return await asyncio.gather(*(one(0.0004 * number) for number in range(12)))

    for run_id in asyncio.run(several()):
        bench.check(run_id)
        assert all(trace.terminal for trace in bench.traces(run_id))


def test_a_timeout_around_a_call_is_a_timeout(tmp_path: Path) -> None:
    bench = Bench(tmp_path, echo)

    async def work() -> str:
        async with bench.runtime.session(goal="a") as s, bench.runtime.session(goal="b") as other:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await s.call("echo", {"text": "slow", "pause": 30})
            assert (await s.call("echo", {"text": "quick"})).ok
            assert (await other.call("echo", {"text": "quick"})).ok
        return s.run_id

    run_id = asyncio.run(work())
    bench.check(run_id)
    assert [trace.effect.meta["code"] for trace in bench.traces(run_id) if trace.effect] == ["OK", "ERR_IN_DOUBT"]


class Failing:
    """A store whose disk is full for a while."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        append, append_many = store.append, store.append_many

        def one(*given: Any, **named: Any) -> Any:
            if self.full:
                raise StoreError("the disk is full")
            return append(*given, **named)

        def many(*given: Any) -> Any:
            if self.full:
                raise StoreError("the disk is full")
            return append_many(*given)

        monkeypatch.setattr(store, "append", one)
        monkeypatch.setattr(store, "append_many", many)


def test_a_session_whose_disk_was_full_for_a_while_goes_on_and_its_chain_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    @skill("act", version="1.0.0", tool_class="write")
    async def act(ctx: SkillContext, n: int) -> int:
        made.append(n)
        failing.full = n == 2  # the effect of the second call cannot be recorded
        return n

    bench = Bench(tmp_path, act, echo)
    failing = Failing(bench.store, monkeypatch)

    async def work() -> str:
        async with bench.runtime.session(goal="survive") as s:
            assert (await s.call("act", {"n": 1})).ok
            with pytest.raises(StoreError):
                await s.call("act", {"n": 2})
            with pytest.raises(StoreError):
                await s.call("act", {"n": 3})
            failing.full = False
            assert (await s.call("act", {"n": 4})).ok
        return s.run_id

    run_id = asyncio.run(work())
    assert made == [1, 2, 4], "what cannot be recorded is not dispatched"
    bench.check(run_id)


def test_reads_may_go_on_without_a_record_where_the_host_said_so_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, echo)
    failing = Failing(bench.store, monkeypatch)

    async def work() -> str:
        async with bench.runtime.session(goal="read on", unrecorded_reads=True) as s:
            assert (await s.call("echo", {"text": "recorded"})).ok
            failing.full = True
            outcome = await s.call("echo", {"text": "unrecorded"})
            assert outcome.details is not None
            assert (outcome.output, outcome.details["unrecorded"]) == ({"text": "unrecorded"}, True)
            failing.full = False
            assert (await s.call("echo", {"text": "again"})).ok
        return s.run_id

    bench.check(asyncio.run(work()))


def test_a_call_that_was_never_decided_does_not_keep_its_session_open(stage: Stage) -> None:
    """The second of two equal reads waits for the first; its request is durable when the process dies."""
    crashing = Bench(stage.folder)

    @skill("look", version="1.0.0", tool_class="read", idempotent=True)
    async def look_up(ctx: SkillContext, n: int) -> int:
        if n == 1:
            # Until the other call has committed, and both requests with it.
            while crashing.store.find_run(ctx.run_id).commits < 3:  # noqa: ASYNC110 - a commit sets no event
                await asyncio.sleep(0.001)
            os.kill(os.getpid(), 9)
        return n

    def work() -> None:
        nonlocal crashing
        crashing = Bench(stage.folder, look_up)

        async def calls() -> None:
            async with crashing.runtime.session(goal="crash") as s:
                await asyncio.gather(*(s.call("look", {"n": n}) for n in (1, 1, 2)))

        asyncio.run(calls())

    assert in_child(work) == 9
    bench = Bench(stage.folder, look_up)
    (row,) = bench.store.runs()
    assert "PENDING" in [trace.state for trace in bench.traces(row.run_id)]

    async def resume() -> None:
        async with bench.runtime.session(resume=row.run_id) as s:
            assert len(await s.history()) == 6

    asyncio.run(resume())
    assert bench.store.find_run(row.run_id).status == "completed"
    bench.check(row.run_id)
