"""A program that went on without the answer to a call goes the same way when it is started again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import Diverged, WaitingForPerson
from reenact.record.reader import steps_of
from reenact.runtime.people import decisions as people
from reenact.runtime.session.answering import turns, went_on
from reenact.runtime.session.session import Session
from reenact.runtime.session.sync import SyncSession
from tests.engines.places import store_at
from tests.runtime.session.answering.programs import MADE, Stop, look, pay
from tests.runtime.session.answering.test_where_parts_meet import verified

DECLARED: dict[str, dict[str, Any]] = {
    "read": {"tool_class": "read"},
    "held": {"tool_class": "write", "in_doubt": "hold"},
    "keyed": {"tool_class": "write", "honours_key": True},
    "sent again": {"tool_class": "write"},
}
Program = Callable[[Session], Awaitable[object]]


def slow_skills(declared: dict[str, Any], slow_s: float = 30.0) -> list[Any]:
    """`slow` takes long the first time that it reaches the world."""

    @skill("slow", version="1.0.0", **declared)
    async def slow(x: int) -> int:
        MADE.append(("slow", x))
        if sum(name == "slow" for name, _ in MADE) == 1:
            await asyncio.sleep(slow_s)
        return x

    return [slow, look, pay]


def runtime(path: Path, skills: list[Any], **options: Any) -> Runtime:
    return Runtime(store_at(path / "store.db"), skills=skills, **options)


def run(running: Runtime, program: Program, **wanted: Any) -> object:
    async def whole() -> object:
        async with running.session(id="order-42", **wanted) as session:
            return await program(session)

    return asyncio.run(whole())


def dies(running: Runtime, program: Program, **wanted: Any) -> None:
    async def then_dies(session: Session) -> None:
        await program(session)
        raise Stop

    with pytest.raises(Stop):
        run(running, then_dies, **wanted)


async def limited(session: Session) -> list[object]:
    """Goes another way where the slow call has an answer."""
    try:
        found: object = (await asyncio.wait_for(session.call("slow", {"x": 1}), 0.6)).output
    except TimeoutError:
        found = (await session.call("look", {"what": "instead"})).ok
    return [found, (await session.call("pay", {"amount": 2})).output]


@pytest.mark.parametrize("kind", DECLARED)
def test_a_time_limit_around_a_call_ends_it_in_every_start(tmp_path: Path, kind: str) -> None:
    skills = slow_skills(DECLARED[kind])
    dies(runtime(tmp_path, skills), limited)
    made = list(MADE)
    assert [name for name, _ in made] == ["slow", "look", "pay"]
    for _ in range(3):
        dies(runtime(tmp_path, skills), limited)
    assert run(runtime(tmp_path, skills), limited) == [True, {"paid": 2}]
    assert made == MADE, "nothing is sent twice"
    if kind == "held":
        people_say(tmp_path, skills)
    assert run(runtime(tmp_path, skills), limited) == [True, {"paid": 2}]
    assert run(runtime(tmp_path, skills), limited) == [True, {"paid": 2}], "an ended one answers the same"
    assert made == MADE
    verified(tmp_path)
    assert runtime(tmp_path, skills).replay("order-42").verdict == "matched"


def people_say(path: Path, skills: list[Any]) -> None:
    asyncio.run(people.resolve(runtime(path, skills), "order-42", "main:1", "succeeded", reason="looked", output=1))


def test_without_the_record_of_it_the_program_would_diverge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skills = slow_skills({"tool_class": "read"})
    dies(runtime(tmp_path, skills), limited)
    monkeypatch.setattr(went_on, "recorded", lambda *_: {})
    monkeypatch.setattr(turns, "PATIENCE_S", 0)  # else an open call waits for what came after it, and is given up on
    with pytest.raises(Diverged):
        run(runtime(tmp_path, skills), limited)


def test_a_limit_around_several_calls_ends_the_one_that_it_ended(tmp_path: Path) -> None:
    skills = slow_skills({"tool_class": "read"}, 1.5)

    async def program(session: Session) -> list[object]:
        try:
            async with asyncio.timeout(2.0):
                first = (await session.call("slow", {"x": 1})).output
                MADE[:] = [each for each in MADE if each[0] != "slow"]  # the next takes long as well
                return [first, (await session.call("slow", {"x": 2})).output]
        except TimeoutError:
            return [(await session.call("look", {"what": "instead"})).ok]

    dies(runtime(tmp_path, skills), program)
    assert MADE[-1] == ("look", "instead")
    made = list(MADE)
    assert run(runtime(tmp_path, skills), program) == [True]
    assert [each for each in MADE if each[0] == "look"] == [each for each in made if each[0] == "look"]
    verified(tmp_path)


def test_side_by_side_only_the_one_that_was_given_up_on_is_held(tmp_path: Path) -> None:
    skills = slow_skills({"tool_class": "read"})

    async def program(session: Session) -> object:
        return await asyncio.gather(limited(session), session.call("pay", {"amount": 7}))

    dies(runtime(tmp_path, skills), program)
    made = list(MADE)
    (found, other) = run(runtime(tmp_path, skills), program)  # type: ignore[misc]
    assert (found, other.output) == ([True, {"paid": 2}], {"paid": 7})
    assert made == MADE
    verified(tmp_path)
    assert runtime(tmp_path, skills).replay("order-42").verdict == "matched"


def test_a_lane_that_was_left_counts_as_gone_on_from(tmp_path: Path) -> None:
    skills = slow_skills({"tool_class": "read"})

    async def program(session: Session) -> object:
        with session.lane("researcher"):
            try:
                async with asyncio.timeout(0.2):
                    found: object = (await session.call("slow", {"x": 1})).output
            except TimeoutError:
                found = None
        with session.lane("writer"):
            return (await session.call("pay", {"amount": 2 if found is None else 3})).output

    dies(runtime(tmp_path, skills), program)
    assert run(runtime(tmp_path, skills), program) == {"paid": 2}
    assert MADE == [("slow", 1), ("pay", 2)]
    verified(tmp_path)


def test_a_program_that_waits_without_a_limit_is_answered_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(went_on, "GRACE_S", 0.1)
    skills = slow_skills({"tool_class": "write", "in_doubt": "hold"})

    async def patient(session: Session) -> list[object]:
        outcome = await session.call("slow", {"x": 1})
        return [outcome.code, (await session.call("look", {"what": "instead"})).ok]

    dies(runtime(tmp_path, skills), limited)
    made = list(MADE)
    with pytest.raises(Diverged, match="did not ask for main:3"):
        run(runtime(tmp_path, skills), patient)
    assert made == MADE
    people_say(tmp_path, skills)

    async def longer(session: Session) -> list[object]:
        found = await patient(session)
        return [
            *found,
            (await session.call("pay", {"amount": 2})).output,
            (await session.call("pay", {"amount": 3})).ok,
        ]

    dies(runtime(tmp_path, skills), longer)
    monkeypatch.setattr(went_on, "GRACE_S", 60.0)  # that it was answered is on record by now: it is, at once
    assert run(runtime(tmp_path, skills), longer) == ["OK", True, {"paid": 2}, True]
    assert [*made, ("pay", 3)] == MADE
    verified(tmp_path)


def test_a_program_whose_end_was_its_cancellation_is_answered_at_once(tmp_path: Path) -> None:
    skills = slow_skills({"tool_class": "read"})

    async def interrupted() -> None:
        async with runtime(tmp_path, skills).session(id="order-42") as session:
            await session.call("look", {"what": "a"})
            await session.call("slow", {"x": 1})

    async def cut() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(interrupted(), 1.5)

    asyncio.run(cut())
    asyncio.run(asyncio.wait_for(interrupted(), 9))
    assert MADE == [("look", "a"), ("slow", 1), ("slow", 1)]


# -- waiting for a person ----------------------------------------------------------------------------------------------


async def asks_and_goes_on(session: Session) -> list[object]:
    try:
        found: object = (await session.call("pay", {"amount": 1})).output
    except WaitingForPerson as waits:
        found = waits.step_id
    return [found, (await session.call("look", {"what": "meanwhile"})).ok]


ASK: dict[str, Any] = {"context": {"supervisor": "ask"}}


def approve(path: Path) -> None:
    asyncio.run(people.vote(runtime(path, [look, pay]), "order-42", None, approve=True, reason="fine", who="kim"))


@pytest.mark.parametrize("voted_after", ["death", "end"])
def test_a_call_that_waited_says_so_again_and_is_made_when_the_program_has_ended(
    tmp_path: Path, voted_after: str
) -> None:
    running = runtime(tmp_path, [look, pay])
    (dies if voted_after == "death" else run)(running, asks_and_goes_on, **ASK)
    approve(tmp_path)
    for _ in range(2):
        dies(running, asks_and_goes_on, **ASK)
    assert MADE == [("look", "meanwhile")], "the program that passed over it is not answered otherwise now"
    assert run(running, asks_and_goes_on, **ASK) == ["main:1", True]
    assert MADE == [("look", "meanwhile"), ("pay", 1)]
    assert run(running, asks_and_goes_on, **ASK) == ["main:1", True], "an ended one answers the same"
    assert steps_of(running.store, running.store.find_run("order-42").run_id)["main:1"].outcome().output == {"paid": 1}
    verified(tmp_path)
    assert running.replay("order-42").verdict == "matched"


def test_settle_gives_what_came_of_it(tmp_path: Path) -> None:
    running = runtime(tmp_path, [look, pay])

    async def asks_and_settles(session: Session) -> list[object]:
        found = await asks_and_goes_on(session)
        return [*found, *((each.step_id, each.output) for each in await session.settle())]

    with pytest.raises(WaitingForPerson):
        run(running, asks_and_settles, **ASK)
    approve(tmp_path)
    for _ in range(2):
        dies(running, asks_and_settles, **ASK)
    assert run(running, asks_and_settles, **ASK) == ["main:1", True, ("main:1", {"paid": 1})]
    assert MADE == [("look", "meanwhile"), ("pay", 1)]
    verified(tmp_path)


def test_one_that_ended_the_program_is_answered_although_others_went_on(tmp_path: Path) -> None:
    running = runtime(tmp_path, [look, pay])

    async def slowly(session: Session) -> object:
        results = await asyncio.gather(
            session.call("pay", {"amount": 1}), session.call("look", {"what": "a"}), return_exceptions=True
        )
        await session.call("look", {"what": "b"})
        for each in results:
            if isinstance(each, BaseException):
                raise each
        return [each.ok for each in results if not isinstance(each, BaseException)]

    with pytest.raises(WaitingForPerson):
        run(running, slowly, **ASK)
    approve(tmp_path)
    assert run(running, slowly, **ASK) == [True, True]
    assert MADE.count(("pay", 1)) == 1
    verified(tmp_path)


# -- programs that are not async ---------------------------------------------------------------------------------------


def test_an_alarm_that_breaks_off_a_call_does_so_in_every_start(tmp_path: Path) -> None:
    skills = slow_skills({"tool_class": "read"})

    def out_of_time(*_: object) -> None:
        raise TimeoutError

    def program(session: SyncSession) -> object:
        before = signal.signal(signal.SIGALRM, out_of_time)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            found: object = session.call("slow", {"x": 1}).output
        except TimeoutError:
            found = "too late"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return [found, session.call("pay", {"amount": 2 if found == "too late" else 3}).output]

    def once(*, last: bool) -> object:
        with runtime(tmp_path, skills).session(id="order-42") as session:
            found = program(session)
            if not last:
                raise Stop
            return found

    for _ in range(3):
        with pytest.raises(Stop):
            once(last=False)
    assert once(last=True) == ["too late", {"paid": 2}]
    assert MADE == [("slow", 1), ("pay", 2)]
    verified(tmp_path)


def test_commands_that_are_run_in_the_place_of_an_answer_are_what_the_program_goes_on_with(tmp_path: Path) -> None:
    async def program(session: Session) -> list[int]:
        try:
            await asyncio.wait_for(session.call("slow", {"x": 1}), 0.6)
        except TimeoutError:
            return await session.verify(["true"])
        return await session.verify(["false"])

    skills = slow_skills({"tool_class": "read"})
    dies(runtime(tmp_path, skills), program)
    assert [run(runtime(tmp_path, skills), program) for _ in range(2)] == [[0], [0]]
    assert MADE == [("slow", 1)]
    verified(tmp_path)
