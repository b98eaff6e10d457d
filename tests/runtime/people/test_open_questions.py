"""What a person was asked stays asked, whoever goes on with the run; and no call is sent again for an answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import WaitingForPerson
from reenact.runtime.people import decisions as people
from reenact.runtime.session.session import Session
from tests.cli.harness import Command
from tests.engines.places import ask, store_at
from tests.replay.recording import Crash, armed
from tests.runtime.running import plan, step

SENT: list[str] = []
GO_ON = asyncio.Event()
BEGUN = asyncio.Event()


@skill("pay", version="1.0.0", tool_class="write")
async def pay(name: str) -> str:
    SENT.append(name)
    if name == "slow":
        BEGUN.set()
        await GO_ON.wait()
    return name


@skill("look", version="1.0.0", tool_class="read", idempotent=True)
async def look(name: str) -> str:
    await GO_ON.wait()
    return name


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    global GO_ON, BEGUN  # an event belongs to the loop that first waits for it
    SENT.clear()
    GO_ON, BEGUN = asyncio.Event(), asyncio.Event()


def opened(folder: Path, **options: object) -> Runtime:
    return Runtime(store_at(folder / "store.db"), skills=[pay, look], **options)  # type: ignore[arg-type]


def test_a_plan_that_its_host_asked_about_waits_for_an_answer_without_that_host(tmp_path: Path) -> None:
    asking = opened(tmp_path, supervisor=lambda _: "ask")
    assert asking.run(plan(step(pay, {"name": "big"}))).status == "waiting"
    asking.close()

    other = opened(tmp_path)
    assert other.resume("last").status == "waiting"
    other.recover()
    assert SENT == []
    asyncio.run(people.vote(other, "last", None, approve=True, reason="fine"))
    assert other.resume("last").status == "completed"
    assert SENT == ["big"]


def test_the_command_does_not_answer_for_the_person(tmp_path: Path) -> None:
    asking = opened(tmp_path, supervisor=lambda _: "ask")
    asking.run(plan(step(pay, {"name": "big"})))
    asking.close()
    skills = tmp_path / "skills.py"
    skills.write_text(
        "from reenact import skill\n\n"
        '@skill("pay", version="1.0.0", tool_class="write")\n'
        "async def pay(name: str) -> str:\n"
        "    return name\n"
    )
    reenact = Command(tmp_path)
    store = store_at(tmp_path / "store.db")
    reenact("recover", "--store", store, "--skills", skills)
    (row,) = reenact("ls", "--waiting", "--store", store, "--json").json
    assert row["status"] == "waiting"


def test_a_session_that_settles_what_is_open_asks_on(tmp_path: Path) -> None:
    async def ask() -> None:
        async with opened(tmp_path, supervisor=lambda _: "ask").session() as session:
            await session.call("pay", {"name": "big"})

    async def go_on() -> None:
        async with opened(tmp_path).session(resume="last", interrupted="settle"):
            pass

    for attempt in (ask, go_on):
        with pytest.raises(WaitingForPerson):
            asyncio.run(attempt())
    assert SENT == []


def test_an_approved_call_that_was_sent_before_a_crash_is_not_sent_again(tmp_path: Path) -> None:
    runtime = opened(tmp_path)

    async def ask() -> None:
        async with runtime.session(context={"supervisor": "ask"}) as session:
            await session.call("pay", {"name": "big"})

    async def go_on() -> list[str]:
        async with runtime.session(resume="last") as session:
            return [str(message) for message in await session.history()]

    with pytest.raises(WaitingForPerson):
        asyncio.run(ask())
    asyncio.run(people.vote(runtime, "last", None, approve=True, reason="fine"))
    with pytest.raises(Crash), armed("after_dispatch", 1):
        asyncio.run(go_on())
    expire(runtime)
    assert "ERR_IN_DOUBT" in " ".join(asyncio.run(go_on()))
    assert SENT == ["big"]


def expire(runtime: Runtime) -> None:
    """The executor that crashed in this very process is not seen to be gone."""
    ask(runtime.store.url, "UPDATE runs SET owner = NULL, expires_ms = 0")


@pytest.mark.parametrize("error", [WaitingForPerson, RuntimeError])
def test_a_lease_is_not_given_back_while_a_call_is_under_way(error: type[Exception], tmp_path: Path) -> None:
    runtime = opened(tmp_path, supervisor=lambda proposal: "ask" if proposal.parameters["name"] == "big" else True)

    async def leave_in_a_hurry(session: Session) -> None:
        slow = asyncio.ensure_future(session.call("pay", {"name": "slow"}))
        await BEGUN.wait()
        asyncio.get_running_loop().call_later(0.05, GO_ON.set)
        if error is RuntimeError:
            raise RuntimeError(slow)
        await session.call("pay", {"name": "big"})

    async def block() -> None:
        async with runtime.session() as session:
            await leave_in_a_hurry(session)

    with pytest.raises(error):
        asyncio.run(block())
    ended = [
        trace for trace in runtime.store.bodies(runtime.store.find_run("last").run_id) if b'"tool_effect"' in trace
    ]
    assert len(ended) == 1, "what was under way has ended, and is recorded"
    assert SENT == ["slow"]


def test_a_read_that_nobody_was_asked_about_does_not_wait_for_a_person(tmp_path: Path) -> None:
    runtime = opened(tmp_path)

    async def give_up() -> list[str]:
        async with runtime.session(context={"supervisor": "ask"}) as session:
            first = asyncio.ensure_future(session.call("look", {"name": "a"}))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(session.call("look", {"name": "a"}), 0.05)
            GO_ON.set()
            await first
            return session.waiting

    assert asyncio.run(give_up()) == []
    assert runtime.store.find_run("last").status == "completed"
