"""More is staged than a commit holds: it goes into several, in order, and each of them is whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reenact import skill
from reenact.errors import StoreError
from reenact.store.base import PAYLOAD_BITS, Unit
from tests.engines.places import ask
from tests.runtime.running import Bench, step

MANY = 5_000


class Together:
    """A skill whose calls all end at the same moment."""

    def __init__(self, expected: int) -> None:
        self.missing = expected
        self.all_here = asyncio.Event()

    async def wait(self) -> None:
        self.missing -= 1
        if self.missing == 0:
            self.all_here.set()
        await self.all_here.wait()


def sizes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many payloads each commit holds, from here on."""
    seen: list[int] = []
    appender = bench.store._appender
    real = appender.append

    def counted(units: Unit | list[tuple[Unit, Any, str]], *rest: Any) -> Any:
        """One, or as many as are written together."""
        each = [units] if isinstance(units, Unit) else [unit for unit, *_ in units]
        seen.extend(len(unit.payloads) for unit in each)
        return real(units, *rest)

    monkeypatch.setattr(appender, "append", counted)
    return seen


@skill("echo", version="1.0.0", tool_class="read")
async def echo(number: int) -> int:
    """Gives back what it got."""
    await asyncio.sleep(0)
    return number


def test_thousands_of_calls_in_flight_end_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[Together] = []

    @skill("meet", version="1.0.0", tool_class="read")
    async def meet(number: int) -> int:
        """Waits for all the others."""
        await together[0].wait()
        return number

    bench = Bench(tmp_path, meet)
    held = sizes(bench, monkeypatch)

    async def work() -> str:
        together.append(Together(MANY))
        async with bench.runtime.session(goal="another run"), bench.runtime.session(goal="many") as s:
            outcomes = await asyncio.gather(*(s.call("meet", {"number": number}) for number in range(MANY)))
            assert [outcome.output for outcome in outcomes] == list(range(MANY))
            return s.run_id

    run_id = asyncio.run(work())
    assert sum(held) > 2 * MANY, "more than a commit could hold was staged"
    assert max(held) < 1 << PAYLOAD_BITS
    bench.check(run_id)


def test_calls_made_while_the_store_cannot_be_written_are_recorded_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many: what they staged waits, in commits that are not too large."""
    bench = Bench(tmp_path, echo)
    held = sizes(bench, monkeypatch)
    real = bench.store.append
    monkeypatch.setattr("reenact.runtime.writing.writer.LARGE_COMMIT", 8)

    def refuse(*_: Any, **__: Any) -> Any:
        raise StoreError("the disk is full")

    async def work() -> str:
        async with bench.runtime.session(goal="go on reading", unrecorded_reads=True) as s:
            monkeypatch.setattr(bench.store, "append", refuse)
            for number in range(50):
                outcome = await s.call("echo", {"number": number})
                assert outcome.details is not None
                assert outcome.details["unrecorded"] is True
            monkeypatch.setattr(bench.store, "append", real)
            assert (await s.call("echo", {"number": 50})).ok
            return s.run_id

    run_id = asyncio.run(work())
    assert sum(held) > 50
    assert max(held) < 16
    bench.check(run_id)
    assert len(bench.traces(run_id)) == 51


def test_a_key_that_is_taken_costs_nothing_of_what_was_staged_around_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []

    @skill("once", version="1.0.0", tool_class="write", honours_key=True)
    async def once(number: int) -> int:
        """Counts."""
        ran.append(number)
        await asyncio.sleep(0)
        return number

    bench = Bench(tmp_path, echo, once)
    monkeypatch.setattr("reenact.runtime.writing.writer.LARGE_COMMIT", 4)

    async def work() -> list[str]:
        async with bench.runtime.session(goal="one") as a, bench.runtime.session(goal="two") as b:
            calls = []
            for number in range(60):
                key = f"order-{number % 5}"
                calls += [s.call("once", {"number": number % 5}, idempotency_key=key) for s in (a, b)]
                calls += [s.call("echo", {"number": number}) for s in (a, b)]
            outcomes = await asyncio.gather(*calls)
            assert all(outcome.ok for outcome in outcomes), {outcome.code for outcome in outcomes}
            return [a.run_id, b.run_id]

    for run_id in asyncio.run(work()):
        bench.check(run_id)
    assert sorted(ran) == [0, 1, 2, 3, 4], "once in both sessions"


def test_a_run_checkpoint_stands_where_its_lines_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, echo)
    monkeypatch.setattr("reenact.runtime.writing.writer.LARGE_COMMIT", 16)
    monkeypatch.setattr("reenact.runtime.writing.writer.CHECKPOINT_STEPS", 8)

    async def work() -> str:
        async with bench.runtime.session(goal="another run"), bench.runtime.session(goal="many") as s:
            for _ in range(3):
                await asyncio.gather(*(s.call("echo", {"number": number}) for number in range(100)))
                await s.turn()
            return s.run_id

    run_id = asyncio.run(work())
    bench.check(run_id)
    frontiers = ask(bench.path, "SELECT count(*) FROM run_checkpoints")
    assert frontiers[0][0] >= 3


def test_a_plan_whose_steps_are_all_refused_leaves_run_checkpoints_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, echo)
    monkeypatch.setattr("reenact.runtime.writing.writer.LARGE_COMMIT", 16)
    monkeypatch.setattr("reenact.runtime.writing.writer.CHECKPOINT_STEPS", 8)
    steps = [step(echo, {"number": "no number", "at": number}, on_error="continue") for number in range(64)]
    result = bench.run(*steps)
    bench.check(result)
    assert ask(bench.path, "SELECT count(*) FROM run_checkpoints")[0][0] >= 3
