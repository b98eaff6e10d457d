"""A program with a session's id, started again: the record answers, what was open is settled, what is new is made."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from reenact import Runtime, skill
from reenact.errors import Diverged, LockAcquireFailed, RunEnded, StoreUnavailable, UsageError, WaitingForPerson
from reenact.record.export import export_run
from reenact.record.reader import RunReader
from reenact.runtime.session.sync import SyncSession
from reenact.store.checks.verification import verify_run
from tests.engines.places import all_of, store_at
from tests.runtime.session.answering.programs import (
    MADE,
    Program,
    Stop,
    diverging,
    recorded,
    runtime,
    start,
    stopped,
)


def outcomes(session: SyncSession, calls: int) -> list[str]:
    found = []
    for number in range(calls):
        found.append(session.call("look", {"what": f"thing {number}"}))
        found.append(session.call("pay", {"amount": number + 10}))
    found.append(session.call("look", {"wat": 1}))
    return [json.dumps(to_builtins(each)) for each in found]


def test_what_was_done_is_not_done_again_and_the_answers_are_the_same(tmp_path: Path) -> None:
    first: list[str] = []
    stopped(tmp_path, lambda session: first.extend(outcomes(session, 4)))
    made = list(MADE)
    assert len(made) == 8
    again = start(tmp_path, lambda session: outcomes(session, 4))
    assert (again, MADE) == (first, made)
    assert start(tmp_path, lambda session: outcomes(session, 4)) == first  # it has ended by now
    assert made == MADE
    rows = runtime(tmp_path).store.runs()
    assert [(row.status, row.session) for row in rows] == [("completed", "order-42")]
    steps = runtime(tmp_path).store.step_ids(rows[0].run_id)
    assert steps == [f"main:{number}" for number in range(1, 10)]


def test_a_call_that_failed_is_answered_and_not_made_again(tmp_path: Path) -> None:
    stopped(tmp_path, lambda session: session.call("pay", {"amount": 13}))
    outcome = start(tmp_path, lambda session: session.call("pay", {"amount": 13}).code)
    assert outcome == "ERR_INTERNAL" or str(outcome).startswith("ERR")
    assert MADE == [("pay", 13)]


def test_an_ended_session_answers_and_makes_nothing_new(tmp_path: Path) -> None:
    start(tmp_path, lambda session: session.call("pay", {"amount": 1}))
    before = all_of(tmp_path / "store.db")
    assert start(tmp_path, lambda session: session.call("pay", {"amount": 1}).output) == {"paid": 1}
    assert all_of(tmp_path / "store.db") == before
    with pytest.raises(RunEnded, match="only answers"):
        start(tmp_path, lambda session: [session.call("pay", {"amount": each}) for each in (1, 2)])
    assert MADE == [("pay", 1)]


def test_two_processes_with_one_id_one_works(tmp_path: Path) -> None:
    with runtime(tmp_path).session(id="one") as session:
        session.call("look", {"what": "x"})
        with pytest.raises(LockAcquireFailed), runtime(tmp_path).session(id="one"):
            pass


def test_ids_are_an_agents_own(tmp_path: Path) -> None:
    engine = runtime(tmp_path)
    for agent in ("anna", "ben"):
        with engine.session(id="one", agent_id=agent) as session:
            session.call("pay", {"amount": 1})
    assert len(MADE) == 2
    assert [row.agent_id for row in engine.store.runs()] == ["ben", "anna"]


@pytest.mark.parametrize("wrong", ["", "x" * 256, 7, "\ud800"])
def test_an_id_is_text(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(UsageError, match="1 to 255 characters"):
        runtime(tmp_path).session(id=wrong)  # type: ignore[arg-type]


def test_times_and_random_numbers_are_those_of_the_first_start(tmp_path: Path) -> None:
    told: list[object] = []

    def program(session: SyncSession) -> list[object]:
        found: list[object] = [session.now(), session.uuid(), session.random(), session.turn()]
        with session.lane("side"):
            found += [session.now(), session.uuid(), session.random()]
        found += [session.now(), session.verify(["true", "false"])]
        session.call("look", {"what": "x"})
        return found

    stopped(tmp_path, lambda session: told.extend(program(session)))
    assert told[3] == 1
    assert told[-1] == [0, 1]
    assert start(tmp_path, program) == told
    assert start(tmp_path, program) == told


def test_lanes_name_calls_side_by_side(tmp_path: Path) -> None:
    async def worker(session: object, name: str, order: list[int]) -> list[str]:
        with session.lane(name):  # type: ignore[attr-defined]
            found = []
            for number in order:
                await asyncio.sleep(0.001 * (number % 2))
                outcome = await session.call("pay", {"amount": number})  # type: ignore[attr-defined]
                found.append(outcome.step_id)
            return found

    async def program(dies: bool) -> list[list[str]]:
        async with runtime(tmp_path).session(id="order-42") as session:
            found = await asyncio.gather(worker(session, "a", [1, 2, 3]), worker(session, "b", [4, 5]))
            if dies:
                raise Stop
            return found

    with pytest.raises(Stop):
        asyncio.run(program(dies=True))
    assert asyncio.run(program(dies=False)) == [["main.a:1", "main.a:2", "main.a:3"], ["main.b:1", "main.b:2"]]
    assert len(MADE) == 5


def test_calls_of_one_lane_side_by_side_match_in_any_order(tmp_path: Path) -> None:
    async def program(amounts: list[int], dies: bool) -> list[object]:
        async with runtime(tmp_path).session(id="order-42") as session:
            found = await asyncio.gather(*(session.call("pay", {"amount": amount}) for amount in amounts))
            if dies:
                raise Stop
            return [outcome.output for outcome in found]

    with pytest.raises(Stop):
        asyncio.run(program([1, 2, 3], dies=True))
    assert asyncio.run(program([3, 1, 4, 2], dies=False)) == [{"paid": number} for number in (3, 1, 4, 2)]
    assert sorted(MADE, key=str) == [("pay", 1), ("pay", 2), ("pay", 3), ("pay", 4)]


def test_lanes_that_are_opened_again_are_numbered(tmp_path: Path) -> None:
    def program(session: SyncSession) -> list[str]:
        names = []
        for _ in range(2):
            with session.lane("try") as path:
                names.append(path)
                with session.lane("deep"):
                    names.append(session.call("look", {"what": "x"}).step_id)
        with session.lane("open"), pytest.raises(UsageError, match="opened again"):
            session.lane("a-r2").__enter__()
        return names

    expected = ["main.try", "main.try.deep:1", "main.try-r2", "main.try-r2.deep:1"]
    assert start(tmp_path, program) == expected


def test_a_name_of_the_hosts_own(tmp_path: Path) -> None:
    def program(session: SyncSession) -> list[str]:
        found = [session.call("pay", {"amount": 1}, step_id="charge").step_id]
        with pytest.raises(UsageError, match="the session itself"):
            session.call("pay", {"amount": 1}, step_id="main:7")
        found.append(session.call("pay", {"amount": 2}).step_id)
        return found

    stopped(tmp_path, program)
    assert start(tmp_path, program) == ["charge", "main:2"]
    assert MADE == [("pay", 1), ("pay", 2)]


def test_a_question_to_a_person_is_asked_once_and_answered_in_the_next_start(tmp_path: Path) -> None:
    wanted = {"context": {"supervisor": "ask"}}

    def program(session: SyncSession) -> object:
        return session.call("pay", {"amount": 5}).output

    for _ in range(2):
        with pytest.raises(WaitingForPerson) as waiting:
            start(tmp_path, program, **wanted)
        assert waiting.value.step_id == "main:1"
    from reenact.runtime.people.decisions import vote

    engine = runtime(tmp_path)
    asyncio.run(vote(engine, "order-42", "main:1", approve=True, reason="fine", who="anna"))
    assert start(tmp_path, program, **wanted) == {"paid": 5}
    assert start(tmp_path, program, **wanted) == {"paid": 5}
    assert MADE == [("pay", 5)]


def test_a_host_that_does_not_start_over_goes_on_after_the_record(tmp_path: Path) -> None:
    stopped(tmp_path, lambda session: session.call("pay", {"amount": 1}))
    with runtime(tmp_path).session(resume="order-42") as session:
        assert session.call("pay", {"amount": 2}).step_id == "main:2"
    assert MADE == [("pay", 1), ("pay", 2)]


# -- another way -----------------------------------------------------------------------------------------------------


def test_other_arguments(tmp_path: Path) -> None:
    def program(session: SyncSession) -> None:
        session.call("look", {"what": "a"})
        session.call("pay", {"amount": 2})

    found = diverging(tmp_path, program)
    assert (found.kind, found.lane, found.place, found.pointer) == ("other_arguments", "main", 2, "/amount")
    assert "1 → 2" in str(found)
    start(tmp_path, recorded)  # repaired, it goes on
    assert runtime(tmp_path).store.find_run("order-42").status == "completed"


def test_fields_that_a_skill_marks_secret_are_compared_without_being_told(tmp_path: Path) -> None:
    @skill("login", version="1.0.0", tool_class="read", redact=("pin",))
    def login(user: str, pin: str) -> str:
        return user

    def begin(pin: str, user: str = "anna") -> object:
        with Runtime(store_at(tmp_path / "store.db"), skills=[login]).session(id="order-42") as session:
            return session.call("login", {"user": user, "pin": pin}).code

    assert begin("2718") == begin("2718")
    with pytest.raises(Diverged) as found:
        begin("2718", user="ben")
    assert "anna → ben" in str(found.value)
    assert "2718" not in str([found.value, found.value.asked, found.value.recorded])
    with pytest.raises(Diverged, match="login: what is like a secret in its arguments is another one") as other:
        begin("3141")
    assert "3141" not in str([other.value, other.value.asked, other.value.recorded])


def test_a_call_left_out_is_another_call(tmp_path: Path) -> None:
    def program(session: SyncSession) -> None:
        session.call("look", {"what": "a"})
        session.call("look", {"what": "b"})

    found = diverging(tmp_path, program)
    assert (found.kind, found.place, found.nearest, found.unaccounted) == ("another_call", 2, "main:3", ("main:2",))


def test_a_new_call_while_a_write_was_not_asked_for(tmp_path: Path) -> None:
    def program(session: SyncSession) -> None:
        session.call("pay", {"amount": 7}, step_id="mine")

    found = diverging(tmp_path, program)
    assert (found.kind, found.unaccounted) == ("unaccounted_write", ("main:2",))


def test_an_end_without_a_recorded_write(tmp_path: Path) -> None:
    found = diverging(tmp_path, lambda session: session.call("look", {"what": "a"}))
    assert (found.kind, found.unaccounted) == ("not_asked", ("main:2",))


def test_a_write_of_a_lane_that_is_not_opened_again(tmp_path: Path) -> None:
    def first(session: SyncSession) -> None:
        with session.lane("side"):
            session.call("pay", {"amount": 1})

    stopped(tmp_path, first)
    with pytest.raises(Diverged) as found:
        start(tmp_path, lambda session: session.call("pay", {"amount": 2}))
    assert (found.value.kind, found.value.unaccounted) == ("unaccounted_write", ("main.side:1",))
    assert MADE == [("pay", 1)]


def test_a_swallowed_divergence_is_raised_at_the_end(tmp_path: Path) -> None:
    def program(session: SyncSession) -> None:
        session.call("look", {"what": "a"})
        session.call("pay", {"amount": 1})
        with pytest.raises(Diverged):
            session.call("look", {"what": "c"})

    assert diverging(tmp_path, program).kind == "other_arguments"


def test_what_a_host_accounts_for_need_not_be_asked_for(tmp_path: Path) -> None:
    def program(session: SyncSession) -> object:
        session.account_for(["main:1", "main:2", "main:3"])
        return session.call("pay", {"amount": 9}).step_id

    stopped(tmp_path, recorded)
    assert start(tmp_path, program) == "main:4"
    with pytest.raises(UsageError, match="no call 'x'"):
        start(tmp_path, lambda session: session.account_for(["x"]))


def test_a_program_that_goes_another_way_goes_on_as_a_new_run(tmp_path: Path) -> None:
    def changed(session: SyncSession) -> list[object]:
        return [
            session.call("look", {"what": "a"}).output,
            session.call("pay", {"amount": 2}).output,
            str(session.now()),
        ]

    refused = diverging(tmp_path, changed, on_divergence="fork")
    assert "accept=['main:2']" in "".join(refused.__notes__)
    assert "SENT AGAIN" in "".join(refused.__notes__)
    assert "on_divergence" not in str(refused)
    first = start(tmp_path, changed, on_divergence="fork", accept=["main:2"])
    assert MADE == [("look", "a"), ("pay", 1), ("look", "b"), ("pay", 2)]
    new, old = runtime(tmp_path).store.runs()
    assert (old.status, new.status, new.parent_run, new.session) == ("cancelled", "completed", old.run_id, "order-42")
    assert RunReader(runtime(tmp_path).store, new.run_id).record().key_run == old.run_id  # and so the keys of its steps
    assert verify_run(runtime(tmp_path).store.url, new.run_id).exit_code == 0
    assert start(tmp_path, changed) == first  # from the records of both
    assert len(MADE) == 4


def test_a_fork_that_died_before_its_parent_was_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reenact.runtime.session.answering import forking

    def changed(session: SyncSession) -> None:
        session.call("look", {"what": "a"})
        session.call("pay", {"amount": 2})

    async def dies(*_: object) -> None:
        raise Stop

    stopped(tmp_path, recorded)
    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(forking, "end_parent", dies)
        start(tmp_path, changed, on_divergence="fork", accept=["main:2"])
    start(tmp_path, changed)
    assert [row.status for row in runtime(tmp_path).store.runs()] == ["completed", "cancelled"]
    assert MADE == [("look", "a"), ("pay", 1), ("look", "b"), ("pay", 2)]


# -- in a test -------------------------------------------------------------------------------------------------------


def replayed(path: Path, program: Program, run: object = "order-42") -> object:
    with runtime(path).session(replay=run) as session:  # type: ignore[arg-type]
        return program(session)


def test_a_recorded_session_answers_a_program_and_nothing_is_made(tmp_path: Path) -> None:
    first = start(tmp_path, lambda session: outcomes(session, 2))
    made = list(MADE)
    assert replayed(tmp_path, lambda session: outcomes(session, 2)) == first
    with pytest.raises(Diverged) as more:
        replayed(tmp_path, lambda session: [outcomes(session, 2), session.call("look", {"what": "more"})])
    assert more.value.kind == "new_call"
    with pytest.raises(Diverged, match="it was pay, and now it is look"):
        replayed(
            tmp_path,
            lambda session: session.call("look", {"what": "thing 0"}) and session.call("look", {"what": "thing 7"}),
        )
    with pytest.raises(Diverged) as fewer:
        replayed(tmp_path, lambda session: session.call("look", {"what": "thing 0"}))
    assert fewer.value.unaccounted == ("main:2", "main:3", "main:4", "main:5")
    assert made == MADE


def test_a_session_without_an_id_is_replayed_too(tmp_path: Path) -> None:
    def program(session: SyncSession) -> list[object]:
        first = session.call("pay", {"amount": 1}).output
        return [first, session.turn(), session.verify(["true"]), session.call("look", {"what": "a"}).output]

    with runtime(tmp_path).session() as session:
        run_id, told = session.run_id, program(session)
    assert replayed(tmp_path, program, run_id) == told
    assert replayed(tmp_path, program, "last") == told


def test_a_session_is_replayed_from_the_zip_of_its_bundle(tmp_path: Path) -> None:
    first = start(tmp_path, lambda session: session.call("pay", {"amount": 1}))
    export_run(store_at(tmp_path / "store.db"), "order-42", tmp_path / "bundle")
    shutil.make_archive(str(tmp_path / "bundle"), "zip", tmp_path / "bundle")
    for bundle in ("bundle", "bundle.zip"):
        assert replayed(tmp_path, lambda session: session.call("pay", {"amount": 1}), tmp_path / bundle) == first
    with pytest.raises(StoreUnavailable, match="No such file"):
        replayed(tmp_path, lambda _: None, str(tmp_path / "other.zip"))


def test_a_bumped_version_is_another_tool(tmp_path: Path) -> None:
    @skill("look", version="1.1.0", tool_class="read")
    def newer(what: str) -> dict[str, Any]:
        return {}

    start(tmp_path, lambda session: session.call("look", {"what": "a"}))
    changed = Runtime(store_at(tmp_path / "store.db"), skills=[newer])
    with pytest.raises(Diverged, match=r"1\.0\.0 → 1\.1\.0"), changed.session(replay="order-42") as session:
        session.call("look", {"what": "a"})
