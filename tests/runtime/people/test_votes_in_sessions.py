"""A session whose calls need a person: after the block has ended, and while it goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reenact import Registry, Runtime, skill
from reenact.errors import UsageError, WaitingForPerson
from reenact.record.reader import RunReader
from reenact.runtime.people import decisions as people
from reenact.store.checks.verification import verify_run
from tests.cli.harness import Command, Done
from tests.engines.places import store_at

ASK = {"supervisor": "ask"}


class Office:
    """Letters that were sent, by a runtime that asks before it sends."""

    def __init__(self, folder: Path) -> None:
        self.sent: list[str] = []
        self.path = str(folder / "store.db")
        self.runtime = self.another()

    def another(self) -> Runtime:
        """As in another process, but that it would not count as gone."""

        @skill("send", version="1.0.0", tool_class="write")
        async def send(to: str) -> str:
            self.sent.append(to)
            return f"sent to {to}"

        return Runtime(store_at(self.path), skills=Registry([send]))

    def status(self, run_id: str) -> str:
        return self.runtime.store.find_run(run_id).status

    def say(self, run_id: str, step_id: str | None = None, *, approve: bool = True) -> str:
        return asyncio.run(people.vote(self.another(), run_id, step_id, approve=approve, reason="seen", who="kim"))

    def wait_about(self, *names: str) -> str:
        """A session that was left while calls of it wait."""
        with self.runtime.session(context=ASK) as session:
            for name in names:
                with pytest.raises(WaitingForPerson):
                    session.call("send", {"to": name})
        return session.run_id

    def check(self, run_id: str) -> None:
        assert verify_run(store_at(self.path), run_id).exit_code == 0
        assert self.runtime.replay(run_id).ok


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_an_approved_call_is_made_when_the_session_goes_on(office: Office) -> None:
    run_id = office.wait_about("a")
    assert office.status(run_id) == "waiting"
    office.say(run_id)
    with office.runtime.session(resume=run_id) as session:
        assert session.waiting == []
        assert session.history()[-1]["content"] == '"sent to a"'
    assert office.sent == ["a"]
    assert office.status(run_id) == "completed"
    office.check(run_id)


def test_a_denied_call_is_a_refusal_in_the_history(office: Office) -> None:
    run_id = office.wait_about("a")
    office.say(run_id, approve=False)
    with office.runtime.session(resume=run_id) as session:
        assert "ERR_POLICY_VIOLATION" in str(session.history()[-1]["content"])
    assert office.sent == []
    assert office.status(run_id) == "completed"
    office.check(run_id)


def test_a_call_that_waits_says_so_in_the_history(office: Office) -> None:
    run_id = office.wait_about("a")
    with office.runtime.session(resume=run_id) as session:
        assert session.waiting == ["c1"]
        assert "waits for a person" in str(session.history()[-1]["content"])
    assert office.status(run_id) == "waiting"


@pytest.mark.parametrize("first", ["c1", "c2"])
def test_a_run_waits_until_every_call_of_it_is_answered(office: Office, first: str) -> None:
    run_id = office.wait_about("a", "b")
    with pytest.raises(UsageError, match="several steps"):
        office.say(run_id)
    office.say(run_id, first)
    assert office.status(run_id) == "waiting"
    other = office.say(run_id)
    assert {first, other} == {"c1", "c2"}
    assert office.status(run_id) == "pending"
    with pytest.raises(UsageError, match="voted on already"):
        office.say(run_id, first)
    with office.runtime.session(resume=run_id):
        pass
    assert sorted(office.sent) == ["a", "b"]
    office.check(run_id)


@pytest.mark.parametrize("answered", ["c1", "c2"])
def test_what_is_answered_is_made_while_the_other_still_waits(office: Office, answered: str) -> None:
    run_id = office.wait_about("a", "b")
    office.say(run_id, answered)
    result = office.runtime.resume(run_id)
    assert result.status == "waiting"
    assert office.sent == [{"c1": "a", "c2": "b"}[answered]]
    office.say(run_id)
    with office.runtime.session(resume=run_id):
        pass
    assert sorted(office.sent) == ["a", "b"]
    office.check(run_id)


@pytest.mark.parametrize("approve", [True, False])
def test_a_vote_reaches_a_host_that_stayed_in_its_block(office: Office, approve: bool) -> None:
    with office.runtime.session(context=ASK) as session:
        with pytest.raises(WaitingForPerson):
            session.call("send", {"to": "a"})
        run_id = session.run_id
        assert office.status(run_id) == "waiting", "a person finds it"
        with pytest.raises(WaitingForPerson):
            session.settle()
        assert office.say(run_id, approve=approve) == "c1"
        assert office.status(run_id) == "pending"
        with pytest.raises(UsageError, match="voted on already"):
            office.say(run_id)
        assert session.waiting == []
        outcomes = session.settle()
        assert [outcome.code for outcome in outcomes] == ["OK" if approve else "ERR_POLICY_VIOLATION"]
        assert office.status(run_id) == "running"
    assert office.sent == (["a"] if approve else [])
    assert office.status(run_id) == "completed"
    reader = RunReader(office.runtime.store, run_id)
    list(reader.steps())
    assert [vote.who for vote in reader.fold.votes.values()] == ["kim"]
    assert office.runtime.store.pending_votes(run_id) == {}
    office.check(run_id)


def test_what_was_approved_in_the_block_is_made_when_the_block_ends(office: Office) -> None:
    with office.runtime.session(context=ASK) as session:
        for name in ("a", "b"):
            with pytest.raises(WaitingForPerson):
                session.call("send", {"to": name})
        office.say(session.run_id, "c2")
    assert office.sent == ["b"]
    assert office.status(session.run_id) == "waiting"
    office.say(session.run_id)
    with office.runtime.session(resume=session.run_id):
        pass
    assert office.sent == ["b", "a"]
    office.check(session.run_id)


def test_a_vote_that_nobody_heard_in_time_is_heard_by_the_next(office: Office) -> None:
    with pytest.raises(ZeroDivisionError), office.runtime.session(context=ASK) as session:
        with pytest.raises(WaitingForPerson):
            session.call("send", {"to": "a"})
        office.say(session.run_id)
        _ = 1 / 0
    with office.runtime.session(resume=session.run_id):
        pass
    assert office.sent == ["a"]
    office.check(session.run_id)


def test_a_call_in_flight_is_not_driven_a_second_time_by_settling(tmp_path: Path) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    made: list[str] = []

    @skill("slow", version="1.0.0", tool_class="write")
    async def slow() -> int:
        made.append("slow")
        begun.set()
        await may_end.wait()
        return 1

    async def work() -> list[str]:
        runtime = Runtime(store_at(tmp_path / "store.db"), skills=Registry([slow]))
        async with runtime.session() as session:
            call = asyncio.create_task(session.call("slow"))
            await begun.wait()
            assert await session.settle() == []
            may_end.set()
            return [(await call).code]

    assert asyncio.run(work()) == ["OK"]
    assert made == ["slow"]


def test_the_command_line_approves_what_a_running_host_waits_for(office: Office) -> None:
    def command(*words: str) -> Done:
        return Command(Path(office.path).parent)(*words, "--store", store_at(office.path))

    with office.runtime.session(context=ASK) as session:
        with pytest.raises(WaitingForPerson):
            session.call("send", {"to": "a"})
        rows = command("ls", "--waiting", "--json").json
        assert [row["run_id"] for row in rows] == [session.run_id]
        done = command("approve", "last", "--reason", "seen")
        assert done.code == 0, done.err
        assert command("ls", "--waiting", "--json").json == []
        assert [outcome.output for outcome in session.settle()] == ["sent to a"]
    office.check(session.run_id)


def test_what_a_person_said_goes_with_the_seal_and_stays_out_of_the_table(office: Office) -> None:
    with office.runtime.session(context=ASK) as session:
        with pytest.raises(WaitingForPerson):
            session.call("send", {"to": "a"})
        office.say(session.run_id)
        assert list(office.runtime.store.pending_votes(session.run_id)) != []
        assert asyncio.run(people.cancel(office.another(), session.run_id, reason="enough")) is False
    assert office.runtime.store.pending_votes(session.run_id) == {}
    assert office.status(session.run_id) == "cancelled"
