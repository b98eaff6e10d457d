"""`show` tells who said what about a run, when and why."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.cli.screens.timeline_lines import timeline_lines
from reenact.record.document import read_document
from reenact.record.erase import erase
from reenact.runtime.people import decisions as people
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import FixedClock
from tests.cli.harness import SKILLS, Command
from tests.replay.recording import Crash, armed
from tests.runtime.running import plan, step


@skill("pay", version="1.0.0", tool_class="write", in_doubt="hold")
async def pay(ctx: SkillContext, n: int) -> int:
    return n


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    clock = FixedClock()
    return Runtime(SqliteStore(str(tmp_path / "store.db"), clock=clock), skills=[pay], clock=clock)


def shown(runtime: Runtime, run_id: str = "last") -> tuple[dict[str, Any], list[str]]:
    run = read_document(runtime.store, run_id)
    return run, ["".join(text for text, _ in line) for line in timeline_lines(run)]


def pass_time(runtime: Runtime) -> None:
    runtime.clock.advance(60)  # type: ignore[attr-defined]


def test_a_vote_is_shown_with_who_and_why_before_and_after_the_decision(runtime: Runtime) -> None:
    runtime.run(plan(step(pay, {"n": 1}), supervisor="ask"))
    pass_time(runtime)
    asyncio.run(people.vote(runtime, "last", None, approve=True, reason="the invoice is right", who="kim"))
    for state in ("PENDING", "COMPLETED"):
        run, lines = shown(runtime)
        assert run["steps"][0]["state"] == state
        vote = run["steps"][0]["vote"]
        assert (vote["decision"], vote["who"], vote["reason"]) == ("APPROVE", "kim", "the invoice is right")
        assert "      approved by kim: the invoice is right" in lines
        assert any(line.startswith("event vote") and "s0" in line and "kim" in line for line in lines)
        assert ("      goes on with `reenact resume`" in lines) is (state == "PENDING")
        runtime.resume("last")


def test_a_vote_that_the_holder_has_not_heard_yet_is_shown_too(runtime: Runtime) -> None:
    run_id = runtime.run(plan(step(pay, {"n": 1}), supervisor="ask")).run_id
    lease = runtime.store.acquire(run_id, "somebody")
    asyncio.run(people.vote(runtime, "last", None, approve=False, reason="not today", who="kim"))
    run, lines = shown(runtime)
    assert (run["steps"][0]["vote"]["heard"], "      denied by kim: not today" in lines) == (False, True)
    runtime.store.release(lease)


def test_a_word_about_a_call_in_doubt_is_shown_with_its_step_what_was_decided_and_why(runtime: Runtime) -> None:
    with armed("after_dispatch", 1), pytest.raises(Crash):
        runtime.run(plan(step(pay, {"n": 1}), step(pay, {"n": 2})))
    pass_time(runtime)
    asyncio.run(people.resolve(runtime, "last", "s0", "succeeded", reason="it is on the statement", who="kim"))
    pass_time(runtime)
    runtime.resume("last")
    run, lines = shown(runtime)
    (event,) = run["events"]
    told = (event["step_id"], event["resolution"], event["reason"], event["who"])
    assert told == ("s0", "succeeded", "it is on the statement", "kim")
    (line,) = [line for line in lines if line.startswith("event resolve")]
    assert line.endswith("kim  s0  succeeded: it is on the statement")
    begins = {name: next(i for i, text in enumerate(lines) if f" {name}  pay" in text) for name in ("s0", "s1")}
    assert begins["s0"] < lines.index(line) < begins["s1"], "in the order of time"


def test_a_cancel_is_shown_with_its_reason(runtime: Runtime) -> None:
    runtime.run(plan(step(pay, {"n": 1}), supervisor="ask"))
    asyncio.run(people.cancel(runtime, "last", reason="wrong customer", who="kim"))
    run, lines = shown(runtime)
    assert [(event["type"], event["reason"]) for event in run["events"]] == [("cancel", "wrong customer")]
    assert any(line.endswith("kim  wrong customer") for line in lines)


def test_checks_of_the_work_and_the_agent_s_confidence_are_shown(runtime: Runtime) -> None:
    with runtime.session() as session:
        session.call("pay", {"n": 1})
        session.verify(["true", "false"])
        session.finish(confidence=0.75)
    run, lines = shown(runtime)
    verify, finish = run["events"][-2:]
    assert (verify["commands"], verify["exit_codes"], finish["confidence"]) == (["true", "false"], [0, 1], 0.75)
    assert any(line.endswith("`true` exit 0, `false` exit 1") for line in lines)
    assert any(line.endswith("confidence 0.75") for line in lines)


def test_what_was_erased_is_said_to_be_erased(runtime: Runtime) -> None:
    run_id = runtime.run(plan(step(pay, {"n": 1}), supervisor="ask")).run_id
    asyncio.run(people.vote(runtime, "last", None, approve=True, reason="for Ms Kim's eyes", who="kim"))
    runtime.resume("last")
    erase(runtime.store, run_id, None, who="kim", reason="asked for")  # type: ignore[arg-type]
    run, lines = shown(runtime)
    assert run["steps"][0]["vote"]["erased"]
    assert "      approved by kim (the reason is erased)" in lines


def test_the_words_of_a_person_cannot_forge_a_line(reenact: Command) -> None:
    path = reenact.plan({"skill_id": "counts", "parameters": {"file": "f"}}, supervisor="ask")
    assert reenact("run", path, "--skills", SKILLS).code == 4
    assert reenact("approve", "last", "--reason", "fine\nseal  forged", "--who", "kim").code == 0
    assert "      approved by kim: fine\\nseal  forged\n" in reenact("show", "last").out
    assert reenact("show", "last", "--json").json["steps"][0]["vote"]["reason"] == "fine\nseal  forged"
