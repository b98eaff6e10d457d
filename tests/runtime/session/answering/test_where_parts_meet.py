"""Where the parts of answering meet: names, lanes, forks, keys and leases of programs that are started again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import Diverged, UsageError
from reenact.runtime.session.answering import answers, went_on
from reenact.runtime.session.sync import SyncSession
from reenact.store.checks.verification import verify_run
from reenact.store.sqlite.store import SqliteStore
from tests.engines.places import store_at
from tests.runtime.session.answering.programs import MADE, Stop, diverging, look, recorded, runtime, start, stopped


@skill("slow", version="1.0.0", tool_class="write", idempotent=False)
async def slow(amount: int) -> int:
    MADE.append(("slow", amount))
    await asyncio.sleep(0.4)
    return amount


def slow_runtime(path: Path) -> Runtime:
    return Runtime(store_at(path / "store.db"), skills=[look, slow])


def verified(path: Path) -> None:
    """Every run of the store holds."""
    store = runtime(path).store
    for row in store.runs():
        found = verify_run(store.url, row.run_id)
        assert found.exit_code == 0, (row.status, found.report.first_break, found.differences)


def test_calls_that_wait_for_one_recorded_call_get_names_of_their_own(tmp_path: Path) -> None:
    async def program(order: list[tuple[str, float]], *, dies: bool) -> list[str]:
        async with runtime(tmp_path).session(id="order-42") as session:

            async def one(what: str, after: float) -> str:
                await asyncio.sleep(after)
                outcome = await session.call("pay", {"amount": int(what)})
                if dies:
                    raise Stop
                return outcome.step_id

            return await asyncio.gather(*(one(*each) for each in order))

    with pytest.raises(Stop):
        asyncio.run(program([("2", 0), ("1", 0.5)], dies=True))
    names = asyncio.run(program([("1", 0), ("1", 0.05), ("2", 0.2)], dies=False))
    assert sorted(names) == ["main:1", "main:2", "main:3"]
    assert runtime(tmp_path).replay("order-42").verdict == "matched"


@pytest.mark.parametrize("now", ["renamed", "wrapped"])
def test_a_write_in_a_lane_that_is_called_otherwise_is_not_made_again(tmp_path: Path, now: str) -> None:
    def program(session: SyncSession, lane: str | None) -> None:
        with nullcontext() if lane is None else session.lane(lane):
            session.call("pay", {"amount": 1})

    stopped(tmp_path, lambda session: program(session, "researcher" if now == "renamed" else None))
    with pytest.raises(Diverged) as found:
        start(tmp_path, lambda session: program(session, "payments"))
    assert found.value.kind == "unaccounted_write"
    assert MADE == [("pay", 1)]


def test_after_a_swallowed_divergence_nothing_new_is_made(tmp_path: Path) -> None:
    def program(session: SyncSession) -> None:
        with pytest.raises(Diverged):
            session.call("look", {"what": "other"})
        with session.lane("elsewhere"), pytest.raises(Diverged):
            session.call("pay", {"amount": 77})

    assert diverging(tmp_path, program).kind == "other_arguments"


def test_a_tool_cannot_use_the_session_that_called_it(tmp_path: Path) -> None:
    with runtime(tmp_path).session(id="order-42") as session:
        outcome = session.step(lambda: session.call("pay", {"amount": 1}).code, skill_id="sub")
    assert "cannot call the session that called it" in outcome.message
    assert MADE == []


def test_a_key_whose_result_could_not_be_recorded_does_not_run_again(tmp_path: Path) -> None:
    @skill("image", version="1.0.0", tool_class="write", in_doubt="hold")
    def image() -> Any:
        MADE.append(("image", 1))
        return b"raw"

    codes = []
    for name in ("a", "b"):
        with Runtime(store_at(tmp_path / "store.db"), skills=[image]).session(id=name) as session:
            codes.append(session.call("image", idempotency_key="K").code)
    assert codes == ["ERR_SERIALIZATION_FAILED", "ERR_IN_DOUBT"]
    assert MADE == [("image", 1)]


def test_a_session_whose_record_cannot_be_read_gives_its_lease_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise Stop

    stopped(tmp_path, recorded)
    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr("reenact.runtime.session.reopening.keep_parents", broken)
        start(tmp_path, recorded)
    start(tmp_path, recorded)


def test_an_open_call_that_a_fork_carried_over_is_answered_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(went_on, "GRACE_S", 0.1)

    async def program(*, dies: bool) -> list[str]:
        accept = ["main.side:1"]
        async with slow_runtime(tmp_path).session(id="order-42", on_divergence="fork", accept=accept) as session:
            found = []
            with session.lane("side"):
                try:
                    found.append((await asyncio.wait_for(session.call("slow", {"amount": 1}), 0.1 if dies else 9)).code)
                except TimeoutError:
                    found.append("given up")
            found.append((await session.call("look", {"what": "other"})).code)
            if dies:
                raise Stop
            return found

    stopped(tmp_path, lambda session: session.call("look", {"what": "a"}))
    with pytest.raises(Stop):
        asyncio.run(program(dies=True))
    for _ in range(2):
        assert asyncio.run(program(dies=False)) == ["ERR_IN_DOUBT", "OK"]
    assert MADE.count(("slow", 1)) == 1
    verified(tmp_path)


def test_a_fork_leaves_no_call_in_doubt_behind_unsaid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(went_on, "GRACE_S", 0.1)

    async def program(what: str, **given: Any) -> None:
        async with slow_runtime(tmp_path).session(id="order-42", **given) as session:
            with session.lane("side"), pytest.raises(TimeoutError):
                await asyncio.wait_for(session.call("slow", {"amount": 1}), 0.1)
            await session.call("look", {"what": what})
            raise Stop

    with pytest.raises(Stop):
        asyncio.run(program("a"))
    with pytest.raises(Diverged) as found:
        asyncio.run(program("other", on_divergence="fork"))
    assert any("main.side:1" in note for note in found.value.__notes__)
    with pytest.raises(Stop):
        asyncio.run(program("other", on_divergence="fork", accept=["main.side:1"]))
    assert MADE.count(("slow", 1)) == 1


def test_settling_beside_the_same_call_sends_it_once(tmp_path: Path) -> None:
    async def first() -> None:
        async with slow_runtime(tmp_path).session(id="order-42") as session:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(session.call("slow", {"amount": 1}), 0.1)
            raise Stop

    async def second() -> list[str]:
        async with slow_runtime(tmp_path).session(id="order-42") as session:
            settled, outcome = await asyncio.gather(session.settle(), session.call("slow", {"amount": 1}))
            return [*(each.code for each in settled), outcome.code]

    with pytest.raises(Stop):
        asyncio.run(first())
    assert asyncio.run(second()) == ["OK", "OK"]
    assert MADE == [("slow", 1), ("slow", 1)]  # given up on, and sent again: once
    verified(tmp_path)


def test_calls_that_begin_during_a_fork_are_of_the_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PATIENCE_S", 0.05)
    append = SqliteStore.append

    def slowly(*given: Any, **said: Any) -> Any:
        time.sleep(0.01)
        return append(*given, **said)

    monkeypatch.setattr(SqliteStore, "append", slowly)

    async def program(**wanted: Any) -> None:
        async with runtime(tmp_path).session(id="order-42", **wanted) as session:

            async def beside() -> None:
                with session.lane("beside"):
                    for number in range(20):
                        await session.call("pay", {"amount": number})

            async def changed() -> None:
                await asyncio.sleep(0.05)
                await session.call("look", {"what": "other"}, step_id="first")

            await asyncio.gather(changed(), beside())

    stopped(tmp_path, lambda session: session.call("look", {"what": "a"}, step_id="first"))
    asyncio.run(program(on_divergence="fork"))
    asyncio.run(program())
    assert [made for made in MADE if made[0] == "pay"] == [("pay", number) for number in range(20)]
    assert len(runtime(tmp_path).store.runs()) == 2
    verified(tmp_path)


def test_a_lane_is_left_where_it_was_entered(tmp_path: Path) -> None:
    """An async generator that is finished by another task runs in that one's context from then on."""

    async def program() -> None:
        async with runtime(tmp_path).session(id="order-42") as session:

            async def names() -> AsyncIterator[str]:
                with session.lane("side"):
                    for amount in (1, 2):
                        yield (await session.call("pay", {"amount": amount})).step_id

            async def finishes(generator: AsyncIterator[str]) -> list[str]:
                return [name async for name in generator]

            generator = names()
            assert await anext(generator) == "main.side:1"
            with pytest.raises(UsageError, match="leave it where it was entered"):
                await asyncio.create_task(finishes(generator))

    asyncio.run(program())
    verified(tmp_path)
