"""Answers come in the order in which they came first, so that one that fails does not end others before they ask."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.runtime.session.answering import turns
from reenact.runtime.session.session import Session
from tests.engines.places import store_at
from tests.runtime.session.answering.programs import Stop
from tests.runtime.session.answering.test_where_parts_meet import verified

SENT: list[str] = []
ENDED: list[str] = []
ENDS: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


@skill("look", version="1.0.0", tool_class="read", idempotent=False)
async def look(what: int) -> int:
    SENT.append(str(what))
    await asyncio.sleep(0)
    return what


@skill("work", version="1.0.0", tool_class="write", honours_key=True, retry={"max_retries": 0})
async def work(name: str, until: str) -> str:
    """Ends once another has ended, in this start or before; the one that is called `fails` fails."""
    SENT.append(name)
    if until and until not in ENDED:
        await ENDS[until].wait()
    ENDED.append(name)
    ENDS[name].set()
    if name == "fails":
        raise ValueError("no luck")
    return name


async def program(session: Session, *, lanes: bool, dies: str = "") -> str:
    """A task that fails ends the group. The one beside it has something else to do before it calls."""

    async def task(name: str, until: str = "") -> None:
        for _ in range(20 * (name == "beside")):
            await asyncio.sleep(0)  # what takes it a while
        with session.lane(name) if lanes else nullcontext():
            if dies == name:
                await ENDS["beside"].wait()
                raise Stop
            outcome = await session.call("work", {"name": name, "until": until})
        if not outcome.ok:
            raise RuntimeError(outcome.code)

    with suppress(RuntimeError):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(task("fails", until="beside"))
                group.create_task(task("beside"))
        except* Stop:
            raise Stop from None
        except* RuntimeError as failed:
            raise failed.exceptions[0] from None
    output = (await session.call("work", {"name": "after", "until": ""})).output
    if dies == "after":
        raise Stop
    return str(output)


def start(path: Path, run: Callable[[Session], Awaitable[object]]) -> object:
    async def whole() -> object:
        ENDS.clear()
        async with Runtime(store_at(path / "store.db"), skills=[work, look]).session(id="order-42") as session:
            return await run(session)

    return asyncio.run(whole())


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()
    ENDED.clear()


@pytest.mark.parametrize("lanes", [True, False], ids=["lanes", "one lane"])
@pytest.mark.parametrize(
    ("dies", "sent"), [("after", ["fails", "beside", "after"]), ("fails", ["beside", "fails", "after"])]
)
def test_a_task_that_fails_at_once_does_not_end_those_beside_it_before_they_ask(
    tmp_path: Path, lanes: bool, dies: str, sent: list[str]
) -> None:
    """Whether it was answered from the record or made anew."""
    with pytest.raises(Stop):
        start(tmp_path, partial(program, lanes=lanes, dies=dies))
    for _ in range(3):
        assert start(tmp_path, partial(program, lanes=lanes)) == "after"
    assert sent == SENT
    verified(tmp_path)


@pytest.mark.parametrize("lanes", [True, False], ids=["lanes", "one lane"])
def test_what_is_ready_first_is_ready_first_again(tmp_path: Path, lanes: bool) -> None:
    """Results that are kept as they come, and a race whose loser goes on."""
    order = ["d", "b", "e", "a", "c"]

    async def keeps(session: Session, *, dies: bool = False) -> list[str]:
        found: list[str] = []

        async def one(name: str) -> None:
            with session.lane(name) if lanes else nullcontext():
                until = order[order.index(name) - 1] if name != order[0] else ""
                found.append(str((await session.call("work", {"name": name, "until": until})).output))

        await asyncio.gather(*map(one, sorted(order)))
        racers = [
            session.call("work", {"name": name, "until": until}) for name, until in (("slow", "won"), ("quick", ""))
        ]
        tasks = [asyncio.create_task(racer) for racer in racers]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        found += [str(task.result().output) for task in tasks if task in done]
        found.append(str((await session.call("work", {"name": "won", "until": ""})).output))
        await asyncio.wait(tasks)
        await session.call("work", {"name": "".join(found), "until": ""})
        if dies:
            raise Stop
        return found

    with pytest.raises(Stop):
        start(tmp_path, partial(keeps, dies=True))
    sent = list(SENT)
    for _ in range(2):
        assert start(tmp_path, keeps) == [*order, "quick", "won"]
    assert sent == SENT
    verified(tmp_path)


def test_a_program_that_does_not_ask_any_more_is_answered_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def both(session: Session, lanes: Sequence[str]) -> None:
        async def one(lane: str) -> None:
            with session.lane(lane):
                for number in range(3):
                    await session.call("look", {"what": number})

        await asyncio.gather(*(one(lane) for lane in lanes), asyncio.sleep(0.1))

    async def dies(session: Session) -> None:
        await both(session, ("a", "b"))
        raise Stop

    with pytest.raises(Stop):
        start(tmp_path, dies)
    monkeypatch.setattr(turns, "PATIENCE_S", 0.05)
    start(tmp_path, partial(both, lanes=("b",)))
    assert len(SENT) == 6
