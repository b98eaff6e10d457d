"""An agent's real code over its recorded session, in test suites of their own: whatever changed fails, and says how."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testing.test_plugin import run

pytest_plugins = ["pytester"]

AGENT = """
from reenact import skill

MADE = []

@skill("forecast", version="1.0.0", tool_class="read")
def forecast(city: str) -> dict:
    MADE.append(("forecast", city))
    return {"city": city, "sky": "clear"}

@skill("book", version="1.0.0", tool_class="write")
def book(city: str, days: int) -> dict:
    MADE.append(("book", city))
    return {"booked": f"{days} days in {city}", "token": "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"}

@skill("charge", version="1.0.0", tool_class="write")
def charge(cents: int) -> dict:
    if cents > 100:
        raise ValueError("too much")
    return {"charged": cents}

@skill("search", version="1.0.0", tool_class="read", isolation="process")
def search(text: str) -> list:
    import os
    return [text, "found"]

SKILLS = [forecast, book, charge, search]

def trip(session):
    prompt = "You plan trips."
    plan = session.call("search", {"text": prompt})
    sky = session.call("forecast", {"city": "Bergen"}).output["sky"]
    booked = session.call("book", {"city": "Bergen", "days": 2})
    paid = session.call("charge", {"cents": 500})
    return f"{booked.output['booked']}, {sky}, {paid.status}"
"""
SUITE = """
from agent import MADE, SKILLS, trip

def test_the_trip(recorded_session):
    with recorded_session(skills=SKILLS) as session:
        assert trip(session) == "2 days in Bergen, clear, failure"
"""
ALL_CODE = SUITE.replace("skills=SKILLS", 'skills=SKILLS, execute="*"')


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A test with its recording."""
    write(pytester, AGENT, SUITE)
    run(pytester, "--reenact-record=missing").assert_outcomes(passed=1)
    return pytester


def write(pytester: pytest.Pytester, agent: str, suite: str = SUITE) -> None:
    pytester.makepyfile(agent=agent, test_trip=suite)


def changed(pytester: pytest.Pytester, before: str, after: str, suite: str = SUITE) -> str:
    """What a failing test says after this change of the agent."""
    assert before in AGENT
    write(pytester, AGENT.replace(before, after), suite)
    result = run(pytester)
    result.assert_outcomes(failed=1)
    return result.stdout.str()


def test_a_recording_is_made_once_and_answers_ever_after(suite: pytest.Pytester) -> None:
    manifest = suite.path / "recordings" / "test_the_trip" / "manifest.json"
    first = manifest.read_bytes()
    write(suite, AGENT, SUITE + "    assert MADE == []\n")

    run(suite).assert_outcomes(passed=1)
    run(suite, "--reenact-record=missing").assert_outcomes(passed=1)
    assert manifest.read_bytes() == first
    write(suite, AGENT)
    run(suite, "--reenact-record=all").assert_outcomes(passed=1)
    assert manifest.read_bytes() != first


def test_without_a_recording_a_test_fails_and_shows_its_own_line(pytester: pytest.Pytester) -> None:
    write(pytester, AGENT)
    result = run(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">       with recorded_session(skills=SKILLS) as session:",
            "E *NoRecording: there is no recording *test_the_trip; make it with: pytest --reenact-record=missing",
            "test_trip.py:4: NoRecording",
        ]
    )


CHANGES = {
    "a prompt": (
        "plan trips.", "plan short trips.",
        "main:1 is recorded for something else: search: /text: You plan trips. → You plan short trips.",
    ),
    "an argument": ('"days": 2', '"days": 3', "main:3 is recorded for something else: book: /days: 2 → 3"),
    "a call left out": (
        'session.call("forecast", {"city": "Bergen"}).output["sky"]', '"clear"',
        "main:2 is recorded for something else: it was forecast, and now it is book; most like it was main:3",
    ),
    "a call left out at the end": (
        'paid = session.call("charge", {"cents": 500})', 'paid = type("Paid", (), {"status": "failure"})',
        'the program has ended, and did not ask for main:4 charge {"cents":500} of the record',
    ),
    "a call added": (
        "    sky =", '    session.call("search", {"text": "more"})\n    sky =',
        "main:2 is recorded for something else: it was forecast, and now it is search",
    ),
    "a call added at the end": (
        '    return f"{booked', '    session.call("forecast", {"city": "Oslo"})\n    return f"{booked',
        'main:5 is not in the record: forecast {"city":"Oslo"}',
    ),
    "a tool renamed": (
        '@skill("book"', '@skill("reserve"',
        "main:3 book: version 1.0.0 was called, and no skill of that name is here now",
    ),
    "a tool renamed, and its call": (
        '"book"', '"reserve"', "main:3 is recorded for something else: it was book, and now it is reserve",
    ),
    "a version": ('"book", version="1.0.0"', '"book", version="1.1.0"', "main:3 book: version 1.0.0 → 1.1.0"),
    "a schema": ("days: int)", "days: int = 1)", "main:3 book: book@1.0.0 declares something else now"),
    "a class": (
        '"book", version="1.0.0", tool_class="write"', '"book", version="1.0.0", tool_class="read"',
        "main:3 book: book@1.0.0 declares something else now",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "said"), CHANGES.values(), ids=CHANGES)
def test_what_changed_fails_the_test(suite: pytest.Pytester, before: str, after: str, said: str) -> None:
    told = changed(suite, before, after)

    assert "reenact.errors.Diverged: " in told
    assert said in told
    assert "record it again: pytest test_trip.py::test_the_trip --reenact-record=all" in told


def test_a_failing_test_shows_the_agents_line_and_none_of_reenact(suite: pytest.Pytester) -> None:
    told = changed(suite, '{"city": "Bergen"}', '{"city": "Oslo"}')

    assert '>       sky = session.call("forecast", {"city": "Oslo"}).output["sky"]' in told
    assert (
        "E       reenact.errors.Diverged: main:2 is recorded for something else: forecast: /city: Bergen → Oslo" in told
    )
    assert "agent.py:31: Diverged" in told
    assert not [line for line in told.splitlines() if "reenact/" in line and ".py" in line]


def test_a_change_that_the_agent_swallows_fails_too(suite: pytest.Pytester) -> None:
    swallowing = """
def careful(session):
    try:
        session.call("search", {"text": "You plan nothing."})
    except Exception:
        return "sorry"
"""
    write(
        suite, AGENT + swallowing, SUITE.replace("trip(session)", "careful(session)").replace("trip\n", "careful\n", 1)
    )
    result = run(suite)

    result.assert_outcomes(failed=1)
    told = result.stdout.str()
    assert "assert 'sorry' == " in told  # both are there
    assert "Diverged: main:1 is recorded for something else: search: /text: You plan trips. → You plan nothing." in told


def test_any_other_failure_tells_what_was_not_asked_for(suite: pytest.Pytester) -> None:
    told = changed(suite, 'session.call("charge", {"cents": 500})', "booked")

    assert "AssertionError: assert '2 days in Be" in told
    assert 'E           until then the program did not ask for main:4 charge {"cents":500} of the record' in told


BUGS = {
    "an output": (
        '"sky": "clear"', '"sky": "cloudy"', "main:2 forecast: its output is another one, /sky: clear → cloudy",
    ),
    "an exception": (
        '"city": city, "sky"', '"city": towns[city], "sky"',
        "main:2 forecast: it gave an answer, and now it fails with ERR_INTERNAL: name 'towns' is not defined",
    ),
    "no exception": (
        "cents > 100", "cents > 1000",
        'main:4 charge: it failed with ERR_INTERNAL, and now it gives {"charged":500}',
    ),
    "another exception": (
        'ValueError("too much")', 'TimeoutError("slow")',
        "main:4 charge: it failed with ERR_INTERNAL, and now it fails with ERR_TIMEOUT: slow",
    ),
    "an output of another process": (
        '"found"', "str(os.getpid() > 0)", "main:1 search: its output is another one, /1: found → True",
    ),
    "a way out": (
        'MADE.append(("forecast", city))', 'import socket; socket.create_connection(("127.0.0.1", 9))',
        "the network is shut in this test; something looks up '127.0.0.1'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "said"), BUGS.values(), ids=BUGS)
def test_a_bug_in_a_tool_fails_where_its_code_is_run(
    suite: pytest.Pytester, before: str, after: str, said: str
) -> None:
    write(suite, AGENT.replace(before, after))
    run(suite).assert_outcomes(passed=1)  # its code is not run

    told = changed(suite, before, after, ALL_CODE)
    assert "reenact.errors.Diverged: " in told
    assert said in told


def test_the_same_code_gives_what_it_gave(suite: pytest.Pytester) -> None:
    write(suite, AGENT, ALL_CODE + '    assert MADE == [("forecast", "Bergen"), ("book", "Bergen")]\n')

    run(suite).assert_outcomes(passed=1)


def test_only_the_named_tools_are_run(suite: pytest.Pytester) -> None:
    named = SUITE.replace("skills=SKILLS", 'skills=SKILLS, execute=["book"]')
    named += '    assert MADE == [("book", "Bergen")]\n'
    write(suite, AGENT, named)
    run(suite).assert_outcomes(passed=1)
    write(suite, AGENT, SUITE.replace("skills=SKILLS", 'skills=SKILLS, execute=["boook"]'))
    result = run(suite)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *UsageError: execute names 'boook', which is no skill here*"])


def test_attempts_that_failed_are_made_again_too(pytester: pytest.Pytester) -> None:
    flaky = """
from reenact import skill

@skill("flaky", version="1.0.0", tool_class="read")
def flaky(ctx, n: int) -> int:
    if ctx.attempt < 1:
        ctx.http_status(503)
    return n
"""
    suite = """
from agent import flaky

def test_it(recorded_session):
    with recorded_session(skills=[flaky], execute="*") as session:
        assert session.call("flaky", {"n": 7}).output == 7
"""
    write(pytester, flaky, suite)
    run(pytester, "--reenact-record=missing").assert_outcomes(passed=1)
    run(pytester).assert_outcomes(passed=1)
    write(pytester, flaky.replace("503", "404"), suite)
    result = run(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*main:1 flaky: it failed with ERR_HTTP_503, and now it fails with ERR_HTTP_404*"])


ASYNC = """
import asyncio
from agent import SKILLS

async def agent(session):
    async def worker(city):
        with session.lane(city):
            return (await session.call("forecast", {"city": city})).output["sky"]
    at, number = session.now(), session.uuid()
    skies = await asyncio.gather(worker("Bergen"), worker("Oslo"))
    return [*skies, at.isoformat(), number]

def test_side_by_side(recorded_session, tmp_path):
    async def main():
        async with recorded_session(skills=SKILLS, goal="a walk", budget_cents=5) as session:
            return await agent(session)
    assert asyncio.run(main())[:2] == ["clear", "clear"]
"""


def test_an_async_agent_with_lanes(pytester: pytest.Pytester) -> None:
    write(pytester, AGENT, ASYNC)
    run(pytester, "--reenact-record=missing").assert_outcomes(passed=1)
    run(pytester).assert_outcomes(passed=1)
    write(pytester, AGENT, ASYNC.replace('worker("Oslo")', 'worker("Voss")'))
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *Diverged: main.Voss:1 is not in the record: forecast *Voss*"])

    write(pytester, AGENT, ASYNC.replace("a walk", "a swim"))
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *UsageError: session * began with another goal*"])


def test_one_more_time_than_recorded(pytester: pytest.Pytester) -> None:
    write(pytester, AGENT, ASYNC)
    run(pytester, "--reenact-record=missing").assert_outcomes(passed=1)
    write(pytester, AGENT, ASYNC.replace("at, number = session.now()", "at, number = session.now() and session.now()"))
    result = run(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *Diverged: now() is asked for once more than in the record"])


def test_secrets_do_not_get_into_a_recording_and_are_not_needed_to_replay(pytester: pytest.Pytester) -> None:
    agent = """
from reenact import skill

@skill("login", version="1.0.0", tool_class="read")
def login(user: str, password: str) -> dict:
    assert password == "correct horse battery"
    return {"token": "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789", "user": user}

@skill("use", version="1.0.0", tool_class="read")
def use(token: str) -> int:
    return len(token)

def agent(session):
    found = session.call("login", {"user": "anna", "password": ""}, secrets={"/password": "PASSWORD"}).output
    session.call("use", {"token": found["token"]})
    return found["user"]
"""
    suite = """
from agent import agent, login, use
def test_it(recorded_session):
    with recorded_session(skills=[login, use], SECRETS) as session:
        assert agent(session) == "anna"
"""
    write(pytester, agent, suite.replace("SECRETS", 'secrets={"PASSWORD": "correct horse battery"}'))
    run(pytester, "--reenact-record=missing").assert_outcomes(passed=1)
    held = b"".join(path.read_bytes() for path in (pytester.path / "recordings").rglob("*") if path.is_file())
    assert b"correct horse" not in held
    assert b"sk-proj" not in held

    write(pytester, agent, suite.replace("SECRETS", ""))
    run(pytester).assert_outcomes(passed=1)
    write(pytester, agent, suite.replace("SECRETS", 'secrets={"PASSWORD": "correct horse battery"}, execute=["login"]'))
    run(pytester).assert_outcomes(passed=1)
    write(pytester, agent, suite.replace("SECRETS", 'execute=["login"]'))
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *SecretError: main:1: login@1.0.0 is to be run, and its secret PASSWORD *"])


def test_with_a_key_of_the_team_what_is_like_a_secret_is_encrypted_in_a_recording(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = ALL_CODE
    monkeypatch.setenv("REENACT_SEAL_KEY", "a key that the whole team has in its environment")
    write(pytester, AGENT, suite)
    run(pytester, "--reenact-record=missing").assert_outcomes(passed=1)
    run(pytester).assert_outcomes(passed=1)
    write(pytester, AGENT.replace("wxyz0123456789", "wxyz0123450000"), suite)
    result = run(pytester)
    result.assert_outcomes(failed=1)
    assert "main:3 book: its output is another one" in result.stdout.str()
    assert "sk-proj-" not in "".join(line for line in result.stdout.str().splitlines() if line.startswith("E "))

    monkeypatch.delenv("REENACT_SEAL_KEY")
    write(pytester, AGENT, suite)
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *SecretError: * is encrypted: set REENACT_SEAL_KEY to the key that is called *"])


def test_a_session_that_fails_or_does_not_end_is_not_recorded(pytester: pytest.Pytester) -> None:
    write(pytester, AGENT, SUITE.replace("assert trip(session)", "trip(session); assert 1"))
    run(pytester, "--reenact-record=missing").assert_outcomes(failed=1)
    assert not (pytester.path / "recordings").exists()


def test_two_sessions_in_one_test(pytester: pytest.Pytester) -> None:
    twice = (
        SUITE
        + SUITE.partition("session):")[2].replace("skills=SKILLS", 'skills=SKILLS, name="second"')
        + (SUITE.partition("session):")[2])
    )
    write(pytester, AGENT, twice)

    run(pytester, "--reenact-record=all").assert_outcomes(passed=1)
    assert sorted(path.name for path in (pytester.path / "recordings").iterdir()) == ["second", "test_the_trip"]
    run(pytester).assert_outcomes(passed=1)


def test_a_damaged_recording_is_never_taken_for_an_absent_one(suite: pytest.Pytester) -> None:
    journal: Path = suite.path / "recordings" / "test_the_trip" / "journal.jsonl"
    damaged = journal.read_bytes().replace(b'"tool_class":"write"', b'"tool_class":"read"', 1)
    journal.write_bytes(damaged)

    result = run(suite, "--reenact-record=missing")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*DamagedRecord*cannot be replayed*"])
    assert journal.read_bytes() == damaged
