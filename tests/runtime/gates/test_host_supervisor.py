"""The host's own supervisor has a word about every call, whatever the plan names; a replay serves what it said."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, Runtime, SkillContext, skill
from reenact.errors import PlanError, StoreError, StoreUnavailable, WaitingForPerson
from reenact.replay import ReplayResult, load_recording
from reenact.replay.modes import full
from reenact.runtime.crash_points import CRASH_POINTS
from reenact.runtime.gates.supervisor import Proposal
from reenact.runtime.people import decisions as people
from tests.crash.harness import KILLED, SKILLS, Stage, check_survived, folded, in_child, look
from tests.engines.places import store_at
from tests.runtime.running import LOADS_ANY, Bench, outcome_of, step

CALLED: list[str] = []
NAMED: list[str] = []


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLED.clear()
    NAMED.clear()


@skill("read", version="1.0.0", tool_class="read")
async def read(ctx: SkillContext, n: int = 0) -> int:
    """Reads."""
    CALLED.append(ctx.step_id)
    return n


@skill("write", version="1.0.0", tool_class="write")
async def write(ctx: SkillContext, n: int = 0) -> int:
    """Writes."""
    CALLED.append(ctx.step_id)
    return n


class Host:
    """Gives one answer, and remembers about what it was asked."""

    def __init__(self, answer: object = True) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def __call__(self, proposal: Proposal) -> Any:
        self.asked.append(proposal.step_id)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def replays(bench: Bench, run_id: str) -> list[ReplayResult]:
    """Mock replays, with the code of the skills and without it: they match, and ask nobody."""
    results = []
    for skills in (Registry([read, write]), Registry()):
        results.append(Runtime(bench.store, skills=skills, supervisor=Host(AssertionError("asked"))).replay(run_id))
        assert results[-1].verdict == "matched", results[-1].divergence
    return results


def named_yes(proposal: Proposal) -> bool:
    NAMED.append(proposal.step_id)
    return True


def named_no(proposal: Proposal) -> bool:
    NAMED.append(proposal.step_id)
    return False


def named_ask(proposal: Proposal) -> str:
    NAMED.append(proposal.step_id)
    return "ask"


YES, NO, ASK = (f"{__name__}:named_{answer}" for answer in ("yes", "no", "ask"))
OK, REFUSED, WAITS = "OK", "ERR_POLICY_VIOLATION", "waiting"
TOGETHER = [
    # the plan's supervisor, the host's answer, what comes of a read, of a write
    (None, True, OK, OK),
    (None, False, REFUSED, REFUSED),
    (None, "ask", WAITS, WAITS),
    (None, "yes, I think", REFUSED, REFUSED),
    (None, RuntimeError("out of order"), REFUSED, REFUSED),
    ("auto", True, OK, OK),
    ("auto", False, REFUSED, REFUSED),
    ("auto", "ask", WAITS, WAITS),
    ("ask", True, OK, WAITS),
    ("ask", False, REFUSED, REFUSED),
    ("ask", "ask", WAITS, WAITS),
    (YES, True, OK, OK),
    (YES, False, REFUSED, REFUSED),
    (YES, "ask", WAITS, WAITS),
    (NO, True, REFUSED, REFUSED),
    (NO, "ask", REFUSED, REFUSED),
    (ASK, True, WAITS, WAITS),
    (ASK, False, REFUSED, REFUSED),
]


@pytest.mark.parametrize(("mode", "answer", "of_read", "of_write"), TOGETHER)
def test_host_and_plan_must_both_agree(
    mode: str | None, answer: object, of_read: str, of_write: str, tmp_path: Path
) -> None:
    host = Host(answer)
    bench = Bench(tmp_path, read, write, supervisor=host, policy=LOADS_ANY)
    context = {} if mode is None else {"supervisor": mode}
    for called, expected in ((read, of_read), (write, of_write)):
        host.asked.clear()
        CALLED.clear()
        NAMED.clear()
        result = bench.run(step(called), **context)
        assert host.asked == ["s0"]
        assert (result.status if expected == WAITS else outcome_of(result).code) == expected
        assert (CALLED == ["s0"]) is (expected == OK)
        assert (NAMED == ["s0"]) is (mode in (YES, NO, ASK) and answer is not False)
        bench.check(result, exit_code=4 if expected == WAITS else 0)


@pytest.mark.parametrize(("mode", "answer", "of_read", "of_write"), TOGETHER)
def test_in_a_session_too(mode: str | None, answer: object, of_read: str, of_write: str, tmp_path: Path) -> None:
    host = Host(answer)
    bench = Bench(tmp_path, read, write, supervisor=host, policy=LOADS_ANY)
    context = {} if mode is None else {"supervisor": mode}
    for skill_id, expected in (("read", of_read), ("write", of_write)):
        host.asked.clear()
        opening = bench.runtime.session(context=context)
        if expected == WAITS:
            with pytest.raises(WaitingForPerson, match="step c1"), opening as session:
                session.call(skill_id)
            assert bench.store.find_run(session.run_id).status == "waiting"
        else:
            with opening as session:
                assert session.call(skill_id).code == expected
        assert host.asked == ["c1"]


# -- the record -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("host", "said"), [(None, "Approved by auto"), (Host(), "Approved by policy")])
def test_the_record_says_whether_a_function_decided(host: Host | None, said: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path, write, supervisor=host, policy=LOADS_ANY)
    result = bench.run(step(write))
    (trace,) = bench.traces(result.run_id)
    assert trace.decision is not None
    assert trace.decision.rationale == said
    bench.check(result)


def test_a_refusal_says_that_it_was_the_host_s(tmp_path: Path) -> None:
    bench = Bench(tmp_path, write, supervisor=Host(answer=False), policy=LOADS_ANY)
    refused = outcome_of(bench.run(step(write)))
    assert refused.details is not None
    assert (refused.details["gate"], refused.details["reason"]) == ("supervisor", "the host's supervisor refused")


def test_the_host_is_not_asked_about_what_an_earlier_gate_refuses(tmp_path: Path) -> None:
    host = Host()
    bench = Bench(tmp_path, read, write, supervisor=host, policy=LOADS_ANY)
    bench.run(step(write, {"n": "one"}, on_error="continue"), step(read), allowed_skills=["read"])
    assert host.asked == ["s1"]


def test_what_a_supervisor_does_to_the_parameters_changes_no_call(tmp_path: Path) -> None:
    def meddles(proposal: Proposal) -> bool:
        proposal.parameters["n"] = 7
        return True

    bench = Bench(tmp_path, read, supervisor=meddles, policy=LOADS_ANY)
    assert outcome_of(bench.run(step(read, {"n": 1}))).output == 1


def test_an_async_host_is_awaited(tmp_path: Path) -> None:
    async def later(proposal: Proposal) -> bool:
        await asyncio.sleep(0)
        return proposal.risk_level == "READ"

    bench = Bench(tmp_path, read, write, supervisor=later, policy=LOADS_ANY)
    result = bench.run(step(read), step(write, on_error="continue"))
    assert [outcome.code for outcome in result.outcomes] == [OK, REFUSED]


def test_a_named_function_is_not_replaced_by_the_host_s(tmp_path: Path) -> None:
    bench = Bench(tmp_path, read, supervisor=Host(), policy=LOADS_ANY)
    with pytest.raises(PlanError, match="cannot be loaded"):
        bench.run(step(read), supervisor="nowhere:nobody")
    assert bench.store.runs() == []


# -- people -----------------------------------------------------------------------------------------------------------


def voted(bench: Bench, run_id: str, *, approve: bool) -> None:
    asyncio.run(people.vote(bench.runtime, run_id, None, approve=approve, reason="seen"))


@pytest.mark.parametrize("mode", ["auto", "ask", YES, ASK])
@pytest.mark.parametrize("answer", ["ask", True])
def test_a_person_who_approved_is_not_asked_for_again(mode: str, answer: object, tmp_path: Path) -> None:
    host = Host("ask")
    bench = Bench(tmp_path, write, supervisor=host, policy=LOADS_ANY)
    run_id = bench.run(step(write), supervisor=mode).run_id
    voted(bench, run_id, approve=True)
    host.answer = answer
    result = bench.runtime.resume(run_id)
    assert result.status == "completed"
    (trace,) = bench.traces(run_id)
    assert trace.decision is not None
    assert trace.decision.rationale == "Approved by person"
    bench.check(result)


def test_a_host_may_still_refuse_what_a_person_approved(tmp_path: Path) -> None:
    host = Host(answer=True)
    bench = Bench(tmp_path, write, supervisor=host, policy=LOADS_ANY)
    run_id = bench.run(step(write), supervisor="ask").run_id
    voted(bench, run_id, approve=True)
    host.answer = False
    result = bench.runtime.resume(run_id)
    assert outcome_of(result).code == REFUSED
    assert CALLED == []
    bench.check(result)


def test_nobody_is_asked_about_what_a_person_denied(tmp_path: Path) -> None:
    host = Host("ask")
    bench = Bench(tmp_path, write, supervisor=host, policy=LOADS_ANY)
    run_id = bench.run(step(write)).run_id
    voted(bench, run_id, approve=False)
    host.asked.clear()
    result = bench.runtime.resume(run_id)
    assert (outcome_of(result).code, host.asked, CALLED) == (REFUSED, [], [])
    bench.check(result)


def test_a_session_under_auto_waits_for_the_person_that_its_host_asked_for(tmp_path: Path) -> None:
    """One call is waited for and stays; another one that is decided meanwhile does not disturb it."""
    host = Host(answer=True)
    bench = Bench(tmp_path, read, write, supervisor=host, policy=LOADS_ANY)
    with bench.runtime.session() as session:
        assert session.call("read").ok
        host.answer = "ask"
        with pytest.raises(WaitingForPerson):
            session.call("write", {"n": 4})
        host.answer = True
        assert session.call("read").ok
        assert session.waiting == ["c2"]
    run_id = session.run_id
    assert bench.store.find_run(run_id).status == "waiting"
    with bench.runtime.session(resume=run_id) as session:  # what waits for a person is not given up
        assert session.waiting == ["c2"]
    voted(bench, run_id, approve=True)
    with bench.runtime.session(resume=run_id, interrupted="settle") as session:
        assert session.waiting == []
    assert CALLED == ["c1", "c3", "c2"]
    bench.check(run_id)
    replays(bench, run_id)


# -- parallel calls ---------------------------------------------------------------------------------------------------


def test_parallel_calls_are_each_asked_about_and_replayed(tmp_path: Path) -> None:
    asked: list[str] = []

    async def odd_ones(proposal: Proposal) -> bool:
        asked.append(proposal.step_id)
        await asyncio.sleep(0)
        number = proposal.parameters["n"]
        assert isinstance(number, int)
        return number % 2 == 1

    bench = Bench(tmp_path, write, supervisor=odd_ones, policy=LOADS_ANY)

    async def work() -> str:
        async with bench.runtime.session() as session:
            outcomes = await asyncio.gather(*(session.call("write", {"n": n}) for n in range(6)))
            assert [outcome.code for outcome in outcomes] == [REFUSED, OK] * 3
            return session.run_id

    run_id = asyncio.run(work())
    assert sorted(asked) == [f"c{n}" for n in range(1, 7)]
    bench.check(run_id)
    replays(bench, run_id)


# -- replays ----------------------------------------------------------------------------------------------------------


def refuses_s1(proposal: Proposal) -> bool:
    return proposal.step_id != "s1"


STEPS = [step(read), step(write, on_error="continue"), step(read)]


@pytest.mark.parametrize("mode", ["auto", YES])
@pytest.mark.parametrize("skills", [(read, write), ()])
def test_a_replay_serves_what_the_host_said_and_asks_nobody(mode: str, skills: tuple[Any, ...], tmp_path: Path) -> None:
    recorded_by = Bench(tmp_path, read, write, supervisor=refuses_s1, policy=LOADS_ANY)
    run_id = recorded_by.run(*STEPS, supervisor=mode).run_id
    recorded_by.runtime.close()
    CALLED.clear()
    NAMED.clear()
    host = Host(RuntimeError("asked in a replay"))
    runtime = Runtime(store_at(recorded_by.path), skills=Registry(skills), supervisor=host)
    result = runtime.replay(run_id)
    assert result.verdict == "matched", result.divergence
    assert [outcome.code for outcome in result.outcomes] == [OK, REFUSED, OK]
    assert result.content == ()
    assert (host.asked, NAMED, CALLED) == ([], [], [])


def test_a_mocked_fork_asks_nobody_and_a_live_one_asks_from_the_fork_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, read, write, supervisor=refuses_s1, policy=LOADS_ANY)
    run_id = bench.run(*STEPS).run_id
    host = Host(answer=True)
    runtime = Runtime(bench.store, skills=Registry([read, write]), supervisor=host)
    assert runtime.fork(run_id, "s2").verdict == "matched"
    assert host.asked == []
    live = runtime.fork(run_id, "s2", live=True)
    assert ([outcome.code for outcome in live.outcomes], host.asked) == ([OK, REFUSED, OK], ["s2"])
    bench.check(live.run_id)


@pytest.mark.parametrize("skills", [(read, write), ()])
def test_what_no_host_decided_is_decided_by_the_plan_again(skills: tuple[Any, ...], tmp_path: Path) -> None:
    bench = Bench(tmp_path, read, write, policy=LOADS_ANY)
    run_id = bench.run(*STEPS).run_id
    host = Host(answer=False)
    result = Runtime(bench.store, skills=Registry(skills), supervisor=host).replay(run_id)
    assert (result.verdict, host.asked) == ("matched", [])


def test_a_mock_replay_does_not_load_the_function_that_the_plan_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy_of_a_host.py").write_text("def yes(proposal):\n    return True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    bench = Bench(tmp_path, read, policy=LOADS_ANY)
    run_id = bench.run(step(read), supervisor="policy_of_a_host:yes").run_id
    (tmp_path / "policy_of_a_host.py").unlink()
    monkeypatch.delitem(sys.modules, "policy_of_a_host")
    replays(bench, run_id)


def test_a_live_replay_asks_its_host_about_what_it_makes_and_about_nothing_else(tmp_path: Path) -> None:
    recorded_by = Bench(tmp_path, read, write, policy=LOADS_ANY)
    run_id = recorded_by.run(step(read), step(write)).run_id
    host = Host(answer=True)
    runtime = Runtime(recorded_by.store, skills=Registry([read, write]), supervisor=host)
    recording = load_recording(recorded_by.store, run_id)
    assert asyncio.run(full.full_replay(runtime, recording)).verdict == "matched"
    assert host.asked == ["s0"]
    host.answer = False
    refused = asyncio.run(full.full_replay(runtime, recording, execute=["s1"]))
    assert (refused.verdict, refused.get_step("s0").outcome.code) == ("world_differed", REFUSED)


def test_a_run_that_was_cancelled_while_its_host_waited_for_a_person_replays_to_there(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path, read, write, supervisor=lambda proposal: proposal.step_id == "s0" or "ask", policy=LOADS_ANY
    )
    run_id = bench.run(step(read), step(write)).run_id
    asyncio.run(people.cancel(bench.runtime, run_id, reason="enough"))
    assert [result.status for result in replays(bench, run_id)] == ["cancelled", "cancelled"]


def test_a_fork_of_what_a_person_approved_verifies(tmp_path: Path) -> None:
    bench = Bench(tmp_path, read, write, supervisor=Host("ask"), policy=LOADS_ANY)
    run_id = bench.run(step(write), step(write)).run_id
    for _ in range(2):
        voted(bench, run_id, approve=True)
        bench.runtime.resume(run_id)
    forked = Runtime(bench.store, skills=Registry([read, write])).fork(run_id, "s1")
    assert forked.verdict == "matched"
    bench.check(forked.run_id)


# -- crashes ----------------------------------------------------------------------------------------------------------


class BookKeeper:
    """Approves, and writes into a file what it was asked about: what a process does before it dies stays there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, proposal: Proposal) -> bool:
        with self.path.open("a", encoding="utf-8") as book:
            book.write(json.dumps(proposal.step_id) + "\n")
        return True

    def asked(self) -> list[str]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []


ONCE = [
    "before_commit", "after_commit", "before_dispatch", "after_dispatch", "before_attempt_record",
    "after_attempt_record", "in_backoff", "after_effect", "before_seal",
]  # fmt: skip


@pytest.mark.parametrize("point", [*ONCE, *(f"{point}:{times}" for point in ONCE[:4] for times in (3, 5))])
def test_after_kill_9_nobody_is_asked_again_about_what_was_recorded(point: str, stage: Stage) -> None:
    assert point.partition(":")[0] in CRASH_POINTS
    keeper = BookKeeper(stage.folder / "asked")

    def runtime() -> Runtime:
        return Runtime(stage.url, skills=SKILLS, supervisor=keeper)

    assert in_child(lambda: runtime().run(stage.plan()), crash_at=point) == KILLED
    before = look(stage)
    decided = {
        trace.step_id
        for run_id, run in before.runs.items()
        for trace in folded(run_id, run.bodies)[1]
        if trace.decision is not None
    }
    asked_before = len(keeper.asked())
    again = runtime()
    again.recover() if before.runs else again.run(stage.plan())
    again.close()
    asked_later = keeper.asked()[asked_before:]
    assert not decided & set(asked_later)
    assert set(keeper.asked()) == {"first", "shaky", "keyed", "last"}, "every call came before the host"
    check_survived(stage, before)


# -- where the journal cannot be written ------------------------------------------------------------------------------


@pytest.mark.parametrize(("context", "host"), [
    ({"profile": {"denied_skills": ["read"]}}, None),
    ({}, Host(answer=False)),
    ({}, Host(answer=True)),
])  # fmt: skip
def test_a_read_goes_on_unrecorded_only_where_the_gates_let_it_pass(
    context: dict[str, Any], host: Host | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function is asked once the request is durable: where nothing can be, it cannot have said yes."""
    bench = Bench(tmp_path, read, supervisor=host, policy=LOADS_ANY)
    with pytest.raises(StoreError), bench.runtime.session(context=context, unrecorded_reads=True) as session:

        def full_disk(*_: object, **__: object) -> None:
            raise StoreUnavailable("the disk is full")

        monkeypatch.setattr(bench.store, "append", full_disk)
        session.call("read")
    assert CALLED == []
