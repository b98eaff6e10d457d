"""A run goes on with the declarations that it began with, and a pinned plan runs with those that it was pinned with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill, skill_from_schema
from reenact.contracts.skill import whole_digest
from reenact.errors import PlanError, UsageError, WaitingForPerson
from reenact.record.document import read_document
from reenact.skills.skill import Skill
from reenact.store.checks.verification import verify_run
from reenact.values.clock import FixedClock
from tests.engines.places import opened, store_at
from tests.replay.recording import Crash, armed
from tests.runtime.running import plan, step

SENT: list[str] = []


def declared(**fields: Any) -> Skill:
    @skill("pay", version="1.0.0", tool_class="write", **fields)
    async def pay(text: str) -> str:
        SENT.append(text)
        return text

    return pay


@pytest.fixture
def clock() -> FixedClock:
    SENT.clear()
    return FixedClock()


def runtime_with(path: Path, clock: FixedClock, tool: Skill) -> Runtime:
    return Runtime(opened(path, clock=clock), skills=[tool], clock=clock)


CHANGES = [
    ({"honours_key": True}, {"honours_key": False}),
    ({"in_doubt": "hold"}, {}),
    ({}, {"timeout_ms": 77}),
]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_a_call_in_doubt_whose_skill_was_declared_anew_is_held(
    tmp_path: Path, clock: FixedClock, before: dict[str, Any], after: dict[str, Any]
) -> None:
    path, first = tmp_path / "store.db", declared(**before)
    with armed("after_dispatch", 1), pytest.raises(Crash):
        runtime_with(path, clock, first).run(plan(step(first, {"text": "a"})))
    clock.advance(60)
    held = runtime_with(path, clock, declared(**after)).resume("last")
    assert (held.status, SENT) == ("held", ["a"])
    assert "pay@1.0.0" in str(held.reason)
    assert "reenact cancel" in str(held.reason)
    again = runtime_with(path, clock, first).resume("last")
    assert again.status == ("held" if before.get("in_doubt") else "completed")


def test_a_session_does_not_ask_a_changed_skill_about_a_call_in_doubt(tmp_path: Path, clock: FixedClock) -> None:
    path, first = tmp_path / "store.db", declared(in_doubt="hold")
    runtime = runtime_with(path, clock, first)
    with armed("after_dispatch", 1), pytest.raises(Crash), runtime.session() as session:
        session.call("pay", {"text": "a"})
    clock.advance(60)
    changed = runtime_with(path, clock, declared())
    with pytest.raises(WaitingForPerson, match="another declaration"), changed.session(resume=session.run_id):
        pass
    assert changed.store.find_run(session.run_id).status == "held"


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_a_pinned_plan_is_refused_where_a_skill_is_declared_otherwise(
    tmp_path: Path, clock: FixedClock, before: dict[str, Any], after: dict[str, Any]
) -> None:
    first = declared(**before)
    pinned = runtime_with(tmp_path / "a.db", clock, first).pinned(plan(step(first, {"text": "a"})))
    other = runtime_with(tmp_path / "b.db", clock, declared(**after))
    with pytest.raises(PlanError, match=r"pay@1\.0\.0 changed its definition.*pin the plan again"):
        other.run(pinned)
    assert (SENT, other.store.runs()) == ([], [])


# -- words do not hold a call, and a change may be accepted ------------------------------------------------------------


def killed_after_sending(path: Path, clock: FixedClock, tool: Skill) -> Runtime:
    runtime = runtime_with(path, clock, tool)
    with armed("after_dispatch", 1), pytest.raises(Crash):
        runtime.run(plan(step(tool, {"text": "a"}), step(tool, {"text": "b"})))
    clock.advance(60)
    return runtime


def test_other_words_do_not_hold_a_call_in_doubt(tmp_path: Path, clock: FixedClock) -> None:
    path = tmp_path / "store.db"
    killed_after_sending(path, clock, declared(description="then", owner="ann", tags=["a"]))
    again = runtime_with(path, clock, declared(description="now")).resume("last")
    assert (again.status, SENT) == ("completed", ["a", "a", "b"])
    tool = declared(description="x")
    pinned = runtime_with(tmp_path / "b.db", clock, tool).pinned(plan(step(tool, {"text": "c"})))
    assert runtime_with(tmp_path / "c.db", clock, declared(description="y")).run(pinned).status == "completed"


def test_a_plan_that_was_pinned_with_the_older_digest_runs(tmp_path: Path, clock: FixedClock) -> None:
    tool = declared()
    runtime = runtime_with(tmp_path / "store.db", clock, tool)
    pinned: Any = runtime.pinned(plan(step(tool, {"text": "a"})))
    pinned["context"]["pins"]["skills"][tool.reference] = whole_digest(tool.metadata)
    with armed("after_dispatch", 1), pytest.raises(Crash):
        runtime.run(pinned)
    clock.advance(60)
    assert runtime_with(tmp_path / "store.db", clock, declared()).resume("last").status == "completed"
    assert verify_run(store_at(tmp_path / "store.db"), runtime.store.find_run("last").run_id).exit_code == 0


@pytest.mark.parametrize("name", ["pay", "pay@1.0.0"])
def test_a_changed_skill_that_is_accepted_goes_on_and_the_journal_says_so(
    tmp_path: Path, clock: FixedClock, name: str
) -> None:
    path, first, then = tmp_path / "store.db", declared(), declared(timeout_ms=77)
    killed_after_sending(path, clock, first)
    runtime = runtime_with(path, clock, then)
    held = runtime.resume("last", accept_changed=["another"])
    assert (held.status, SENT) == ("held", ["a"])
    assert "--accept-changed pay" in str(held.reason)
    done = runtime.resume("last", accept_changed=[name], who="kim")
    assert (done.status, SENT) == ("completed", ["a", "a", "b"])
    [event] = read_document(runtime.store, done.run_id)["events"]
    assert (event["type"], event["who"], event["skill"]) == ("accept_changed", "kim", "pay@1.0.0")
    assert (event["pinned"], event["found"]) == (first.digest, then.digest)
    assert verify_run(store_at(path), done.run_id).exit_code == 0
    assert runtime.replay(done.run_id).ok
    with pytest.raises(UsageError, match="accept_changed is a list"):
        runtime.resume("last", accept_changed="pay")


def made(**fields: Any) -> Skill:
    def pay(text: str) -> str:
        SENT.append(text)
        return text

    return skill_from_schema("Pay", {"type": "object"}, pay, **{"honours_key": True, **fields})


def test_a_skill_whose_version_is_made_of_its_definition_is_accepted_as_it_is_today(
    tmp_path: Path, clock: FixedClock
) -> None:
    path = tmp_path / "store.db"
    runtime = runtime_with(path, clock, made())
    with armed("after_dispatch", 1), pytest.raises(Crash), runtime.session() as session:
        session.call("Pay", {"text": "a"})
    clock.advance(60)
    assert made(description="other words").version == made().version
    changed = runtime_with(path, clock, made(timeout_ms=77))
    held = changed.resume(session.run_id)
    assert (held.status, SENT) == ("held", ["a"])
    assert "--accept-changed Pay" in str(held.reason)
    done = changed.resume(session.run_id, accept_changed=["Pay"])
    assert (done.status, SENT) == ("pending", ["a", "a"])
    with changed.session(resume=session.run_id):
        pass
    assert verify_run(store_at(path), session.run_id).exit_code == 0
    assert changed.replay(session.run_id).ok
