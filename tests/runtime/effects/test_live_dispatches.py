"""A call that runs here is not sent beside itself, whoever opens its run again; what it gives late is kept."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import ConcurrentExecution
from reenact.record.reader import steps_of
from reenact.runtime.effects import live
from reenact.runtime.people import decisions as people
from reenact.store.checks.verification import verify_run
from reenact.values.clock import FixedClock
from tests.engines.places import ask, store_at
from tests.runtime.running import plan


class World:
    """A tool that answers when it is told to, and notices that it is called beside itself."""

    def __init__(self, folder: Path, **declared: Any) -> None:
        self.path = str(folder / "store.db")
        self.calls = 0
        self.at_once = 0
        self.most = 0
        self.begun, self.goes_on = threading.Event(), threading.Event()

        @skill("send", version="1.0.0", tool_class="write", **declared)
        def send(to: str) -> str:
            self.calls += 1
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            self.begun.set()
            self.goes_on.wait(20)
            self.at_once -= 1
            return f"sent to {to}, {self.calls}"

        self.skill = send

    def runtime(self) -> Runtime:
        return Runtime(store_at(self.path), skills=[self.skill])

    async def cut_off(self) -> None:
        """Begin a run, and give it up while its call runs."""
        run = asyncio.ensure_future(self.runtime().run_async(PLAN))
        await asyncio.to_thread(self.begun.wait, 20)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    def answers_in(self, seconds: float) -> None:
        threading.Timer(seconds, self.goes_on.set).start()

    def is_left_alone(self) -> None:
        """Until no thread runs any more."""
        self.goes_on.set()
        until = time.monotonic() + 10
        while live.DISPATCHES and time.monotonic() < until:
            time.sleep(0.01)

    def sound(self, run_id: str) -> None:
        found = verify_run(store_at(self.path), run_id)
        assert found.exit_code == 0, found.report.first_break


PLAN = plan({"step_id": "s", "skill_id": "send", "parameters": {"to": "kim"}})


@pytest.mark.parametrize("declared", [{}, {"in_doubt": "hold"}], ids=["redispatch", "hold"])
def test_a_run_that_was_cut_off_and_resumed_gets_what_its_thread_gives(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    world = World(tmp_path, **declared)

    async def cut_and_resume() -> Any:
        await world.cut_off()
        world.answers_in(0.5)
        other = world.runtime()
        return await other.resume_async(other.store.runs()[0].run_id)

    result = asyncio.run(cut_and_resume())
    assert (world.calls, world.most) == (1, 1), "it was sent again"
    assert (result.status, result.get_step("s").outcome.output) == ("completed", "sent to kim, 1")
    world.sound(result.run_id)
    assert world.runtime().replay(result.run_id).matches


def test_whoever_takes_a_run_over_in_the_same_process_gets_what_the_thread_gives(tmp_path: Path) -> None:
    """The first has lost its lease, and waits for its thread as if it had not."""
    world = World(tmp_path)
    first, second = world.runtime(), world.runtime()
    told: list[BaseException] = []

    def run() -> None:
        try:
            first.run(PLAN)
        except ConcurrentExecution as error:
            told.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not world.calls:
        time.sleep(0.01)
    run_id = first.store.runs()[0].run_id
    first.heartbeat.drop(run_id)
    ask(world.path, "UPDATE runs SET owner = NULL, expires_ms = 0")
    world.answers_in(0.5)
    result = second.resume(run_id)
    thread.join()
    assert (world.calls, result.status) == (1, "completed")
    assert result.get_step("s").outcome.output == "sent to kim, 1"
    assert len(told) == 1
    world.sound(run_id)


def note(path: str) -> None:
    with Path(path).open("a") as file:
        file.write(".")


@skill("apart", version="1.0.0", tool_class="write", isolation="process")
def in_a_process(notes: str) -> str:
    note(notes)
    time.sleep(1.5)
    return "sent"


@skill("awaited", version="1.0.0", tool_class="write")
async def in_a_loop(notes: str) -> str:
    note(notes)
    await asyncio.sleep(1.5)
    return "sent"


@pytest.mark.parametrize("sends", [in_a_loop, in_a_process])
def test_a_call_that_runs_in_a_loop_is_not_sent_beside_itself_once_its_lease_is_broken(
    tmp_path: Path, sends: Any
) -> None:
    notes = tmp_path / "notes"
    first, second = (Runtime(store_at(tmp_path / "store.db"), skills=[sends]) for _ in range(2))
    step = {"step_id": "s", "skill_id": sends.metadata.skill_id, "parameters": {"notes": str(notes)}}
    told: list[BaseException] = []

    def run() -> None:
        try:
            first.run(plan(step))
        except ConcurrentExecution as error:
            told.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not notes.exists():
        time.sleep(0.01)
    run_id = first.store.runs()[0].run_id
    people.break_lease(second, run_id, reason="to see what happens")
    result = second.resume(run_id)
    thread.join()
    assert (notes.read_text(), len(told)) == (".", 1), "it was sent again"
    assert (result.status, result.get_step("s").outcome.output) == ("completed", "sent")
    assert live.DISPATCHES == {}
    assert verify_run(store_at(tmp_path / "store.db"), run_id).exit_code == 0


def test_a_call_of_a_loop_that_was_closed_under_it_is_not_waited_for(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    first, second = (Runtime(store_at(tmp_path / "store.db"), skills=[in_a_loop]) for _ in range(2))
    loop = asyncio.new_event_loop()
    step = {"step_id": "s", "skill_id": "awaited", "parameters": {"notes": str(notes)}}
    task = loop.create_task(first.run_async(plan(step)))
    while not notes.exists():
        loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    run_id = first.store.runs()[0].run_id
    people.break_lease(second, run_id, reason="its loop is gone")
    assert second.resume(run_id).status == "completed"
    assert notes.read_text() == ".."
    task.get_coro().close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is meant to be left


@pytest.mark.parametrize("later", [None, live.Dispatch()], ids=["taken", "another since"])
def test_what_whoever_took_the_run_over_has_struck_off_is_no_failure_of_the_call(
    tmp_path: Path, later: live.Dispatch | None
) -> None:
    """It may look before the loop that waits for the thread does, and dispatch the next attempt."""
    known: list[tuple[str, str]] = []

    @skill("send", version="1.0.0", tool_class="write")
    def send(to: str) -> str:
        ((place, trace_id),) = live.DISPATCHES
        known.append((place, trace_id))
        live.DISPATCHES.clear()
        if later is not None:
            live.DISPATCHES[place, trace_id] = later
        return f"sent to {to}"

    result = Runtime(store_at(tmp_path / "store.db"), skills=[send]).run(PLAN)
    assert result.status == "completed"
    assert live.DISPATCHES.pop(known[0], None) is later


@pytest.mark.parametrize("other", ["link/store.db", "folder/../folder/store.db", "folder/alias.db"])
def test_a_store_is_the_same_by_whatever_path_it_is_opened(tmp_path: Path, other: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "folder" / "alias.db").symlink_to("store.db")
    world = World(tmp_path / "folder")

    async def cut_and_resume() -> Any:
        await world.cut_off()
        world.answers_in(0.5)
        again = Runtime(store_at(f"{tmp_path}/{other}"), skills=[world.skill])
        return await again.resume_async(again.store.runs()[0].run_id)

    assert asyncio.run(cut_and_resume()).status == "completed"
    assert (world.calls, world.most) == (1, 1), "it was sent again"


@pytest.mark.parametrize("again", ["resume", "recover"])
@pytest.mark.parametrize("where", ["loop", "threads"])
def test_a_run_that_was_cut_off_is_not_sent_beside_itself(tmp_path: Path, again: str, where: str) -> None:
    """By another runtime on the same store, whichever way it goes on: at once, and several of them."""
    world = World(tmp_path)

    asyncio.run(world.cut_off())
    run_id = world.runtime().store.runs()[0].run_id
    world.answers_in(0.5)

    async def go_on() -> list[Any]:
        def one(runtime: Runtime) -> Any:
            return runtime.resume_async(run_id) if again == "resume" else runtime.recover_async()

        if where == "loop":
            return await asyncio.gather(*(one(world.runtime()) for _ in range(3)), return_exceptions=True)
        apart = (asyncio.to_thread(asyncio.run, one(world.runtime())) for _ in range(3))
        return await asyncio.gather(*apart, return_exceptions=True)

    assert len(asyncio.run(go_on())) == 3  # one goes on, the others are told that it does
    assert (world.calls, world.most) == (1, 1)
    assert world.runtime().resume(run_id).get_step("s").outcome.output == "sent to kim, 1"
    world.sound(run_id)


def test_a_session_that_is_opened_again_in_its_process_does_not_send_beside_the_thread(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def given_up() -> None:
        async with world.runtime().session(id="order-42") as session:
            async with asyncio.timeout(0.3):
                await session.call("send", {"to": "kim"})

    with pytest.raises(TimeoutError):
        asyncio.run(given_up())
    world.answers_in(0.5)

    async def again() -> str:
        async with world.runtime().session(id="order-42") as session:
            return str((await session.call("send", {"to": "kim"})).output)

    assert asyncio.run(again()) == "sent to kim, 1"
    assert (world.calls, world.most) == (1, 1)
    world.sound("order-42")


def test_what_a_thread_gives_late_is_there_after_its_process_has_died(tmp_path: Path) -> None:
    world = World(tmp_path, in_doubt="hold", timeout_ms=300)
    with world.runtime().session(id="order-42") as session:
        assert session.call("send", {"to": "kim"}).code == "ERR_IN_DOUBT"
    assert world.runtime().store.find_run("order-42").status == "held"
    world.is_left_alone()
    assert live.DISPATCHES == {}, "all that is known of it is in the store"
    with world.runtime().session(id="order-42") as session:
        session.call("send", {"to": "kim"})
    row = world.runtime().store.find_run("order-42")
    assert (row.status, world.calls) == ("completed", 1)
    step = steps_of(world.runtime().store, row.run_id)["main:1"]
    assert step.outcome().output == "sent to kim, 1"
    assert [record.kind for record in step.trace.attempts] == ["lost", "attempt"]
    world.sound("order-42")
    assert world.runtime().replay("order-42").matches


def test_what_is_learnt_after_a_cancel_is_kept_beside_the_sealed_run(tmp_path: Path) -> None:
    world = World(tmp_path, in_doubt="hold", timeout_ms=300)
    with world.runtime().session(id="order-42") as session:
        session.call("send", {"to": "kim"})
    assert asyncio.run(people.cancel(world.runtime(), "order-42", reason="enough"))
    row = world.runtime().store.find_run("order-42")
    commits = row.commits
    world.is_left_alone()
    store = world.runtime().store
    (step,) = steps_of(store, row.run_id).values()
    (late,) = store.late_effects(row.run_id, step.trace.trace_id)
    assert b"sent to kim, 1" in late.body
    assert (store.find_run("order-42").commits, store.find_run("order-42").status) == (commits, "cancelled")
    world.sound("order-42")


class SameIds(FixedClock):
    """What it draws is the same everywhere; time passes."""

    def monotonic(self) -> float:
        return time.monotonic()


def test_a_call_of_another_store_with_the_same_ids_is_another_call(tmp_path: Path) -> None:
    """Two stores under clocks that draw the same ids, as tests have them."""
    worlds = [World(tmp_path / name, in_doubt="hold", timeout_ms=50) for name in ("one", "two")]
    for world in worlds:
        Path(world.path).parent.mkdir()
    worlds[1].goes_on.set()
    first, second = (Runtime(store_at(world.path), skills=[world.skill], clock=SameIds()) for world in worlds)
    held, done = first.run(PLAN), second.run(PLAN)
    assert held.run_id == done.run_id
    assert (held.status, done.status) == ("held", "completed")
    assert len(live.DISPATCHES) == 1, "that of the first"
    again = first.resume(held.run_id)
    assert "it still runs in this process" in str(again.reason)
    worlds[0].is_left_alone()
    assert first.resume(held.run_id).status == "completed"
    assert [world.calls for world in worlds] == [1, 1]
