"""How many calls may reach out: which ones count, once each, the same at once, after a crash and in a replay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact import Registry, Runtime, SkillContext, skill
from reenact.errors import WaitingForPerson
from reenact.record.state import load_fold
from reenact.replay import load_recording
from reenact.runtime.gates.supervisor import Proposal
from reenact.runtime.people import decisions as people
from reenact.skills.skill import Skill
from reenact.store.base import Store
from reenact.store.open import open_store
from reenact.values.clock import FixedClock
from tests.crash.harness import KILLED, Stage, in_child
from tests.engines.places import opened, store_at
from tests.runtime.running import Bench, plan, step

OK, TOO_MANY = "OK", "ERR_QUOTA_EXCEEDED"


@skill("look", version="1.0.0", tool_class="read")
async def look(n: int = 0) -> int:
    """Reads what is at hand."""
    return n


@skill("fetch", version="1.0.0", tool_class="read", side_effects=["http_request"])
async def fetch(ctx: SkillContext, n: int = 0, failures: int = 0) -> int:
    """Reads over the network."""
    ctx.side_effect("http_request", "example.com")
    if ctx.attempt < failures:
        raise ConnectionRefusedError(111, "not yet")
    return n


@skill("quiet", version="1.0.0", tool_class="read", side_effects=["http_request"])
async def quiet(n: int = 0) -> int:
    """Declares a side effect that its calls do not report."""
    return n


@skill("put", version="1.0.0", tool_class="write")
async def put(n: int = 0) -> int:
    """Writes, and declares no side effect."""
    return n


@skill("unsaid", version="1.0.0")
async def unsaid(n: int = 0) -> int:
    """Says nothing about itself."""
    return n


@skill("risky", version="1.0.0", tool_class="read", high_risk=True)
async def risky(n: int = 0) -> int:
    """Reads what is delicate."""
    return n


@skill("either", version="1.0.0", tool_class="write", read_when={"method": ("GET",)})
async def either(method: str = "GET") -> str:
    """Reads or writes."""
    return method


SKILLS: tuple[Skill, ...] = (look, fetch, quiet, put, unsaid, risky, either)


def limited(most: int, **context: Any) -> dict[str, Any]:
    return {"profile": {"max_external_calls": most}, "on_error": "continue", **context}


def codes(bench: Bench, *steps: dict[str, Any], most: int, **context: Any) -> list[str]:
    """What comes of the steps; their evidence holds, and they replay with their skills' code and without it."""
    result = bench.run(*steps, **limited(most, **context))
    bench.check(result)
    replays(bench.store, result.run_id)
    return [outcome.code for outcome in result.outcomes]


def replays(store: Store, run_id: str) -> None:
    recording = load_recording(store, run_id)
    for skills in (Registry(SKILLS), Registry()):
        result = Runtime(store, skills=skills).replay(run_id)
        assert result.verdict == "matched", result.divergence
        found = {outcome.step_id: outcome.code for outcome in result.outcomes}
        assert found == {name: recording.outcome(name).code for name in recording.steps}


# -- what counts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("called", "parameters", "counts"), [
    (look, {}, False),
    (fetch, {}, True),
    (quiet, {}, True),
    (put, {}, True),
    (unsaid, {}, True),
    (risky, {}, True),
    (either, {"method": "GET"}, False),
    (either, {"method": "PUT"}, True),
])  # fmt: skip
def test_external_is_what_does_more_than_read_or_declares_side_effects(
    called: Skill, parameters: dict[str, Any], counts: bool, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, *SKILLS)
    expected = [OK, OK, TOO_MANY] if counts else [OK, OK, OK]
    assert codes(bench, *[step(called, parameters)] * 3, most=2) == expected
    last = codes(bench, step(called, parameters), step(called, parameters), step(put), most=2)[-1]
    assert (last == TOO_MANY) is counts


def test_reading_what_is_at_hand_uses_nothing_up_and_is_never_refused(tmp_path: Path) -> None:
    steps = [step(look), step(put), step(look), step(fetch), step(look), step(fetch), step(look), step(put)]
    assert codes(Bench(tmp_path, *SKILLS), *steps, most=2) == [OK, OK, OK, OK, OK, TOO_MANY, OK, TOO_MANY]


def test_where_none_is_allowed_none_is_made(tmp_path: Path) -> None:
    assert codes(Bench(tmp_path, *SKILLS), step(put), step(look), most=0) == [TOO_MANY, OK]


def test_a_call_counts_once_however_often_it_is_attempted_and_whatever_comes_of_it(tmp_path: Path) -> None:
    shaky = step(fetch, {"failures": 2}, retry={"max_retries": 3, "backoff_base_ms": 1})
    failing = step(fetch, {"failures": 9}, retry={"max_retries": 1, "backoff_base_ms": 1})
    found = codes(Bench(tmp_path, *SKILLS), shaky, failing, step(put), step(put), most=3)
    assert found == [OK, "ERR_CONNECTION_REFUSED", OK, TOO_MANY]


def test_what_another_gate_refuses_does_not_count(tmp_path: Path) -> None:
    steps = [
        step(put, {"n": "one"}),
        step(unsaid),
        step(fetch, {"n": 1}),
        step(fetch, {"n": 2}),
        step(put),
        step(put),
    ]
    bench = Bench(tmp_path, *SKILLS, supervisor=lambda proposal: proposal.step_id != "s2")
    found = codes(bench, *steps, most=2, allowed_skills=["put", "fetch"])
    assert found == ["ERR_VALIDATION_FAILED", "ERR_PERMISSION_DENIED", "ERR_POLICY_VIOLATION", OK, OK, TOO_MANY]


def test_what_a_key_answers_reaches_nobody_and_does_not_count(tmp_path: Path) -> None:
    keyed = step(put, {"n": 1}, idempotency_key="k")
    assert codes(Bench(tmp_path, *SKILLS), keyed, keyed, step(put), step(put), most=2) == [OK, OK, OK, TOO_MANY]


def test_a_redispatch_is_the_same_call(stage: Stage) -> None:
    def runtime() -> Runtime:
        return Runtime(stage.url, skills=SKILLS)

    assert (
        in_child(lambda: runtime().run(plan(step(put), step(put), **limited(1))), crash_at="after_dispatch") == KILLED
    )
    (result,) = runtime().recover()
    assert [outcome.code for outcome in result.outcomes] == [OK, TOO_MANY]


# -- what it rests on -------------------------------------------------------------------------------------------------


def test_which_skills_declare_side_effects_is_pinned_where_their_calls_are_limited(tmp_path: Path) -> None:
    bench = Bench(tmp_path, *SKILLS)
    pinned = bench.runtime.pinned(plan(step(look), step(fetch), step(put), **limited(2)))
    assert pinned["context"]["pins"]["side_effects"] == ["fetch@1.0.0"]  # type: ignore[index]
    free = bench.runtime.pinned(plan(step(fetch)))
    assert "side_effects" not in free["context"]["pins"]  # type: ignore[index]


def test_a_run_goes_on_counting_by_its_pins_where_a_skill_of_it_is_gone(stage: Stage) -> None:
    """`look` and `quiet` read alike, and nothing that they leave in the journal tells them apart."""
    steps = [step(look), step(quiet), step(put), step(put)]
    run = plan(*steps, **limited(2))
    died = in_child(lambda: Runtime(stage.url, skills=SKILLS).run(run), crash_at="before_dispatch:3")
    assert died == KILLED
    (result,) = Runtime(stage.url, skills=[put]).recover()
    assert [outcome.code for outcome in result.outcomes] == [OK, OK, OK, TOO_MANY]


def test_a_plan_that_was_pinned_without_it_asks_the_skills(tmp_path: Path) -> None:
    bench = Bench(tmp_path, *SKILLS)
    pinned: Any = bench.runtime.pinned(plan(step(look), step(fetch), step(fetch), **limited(1)))
    del pinned["context"]["pins"]["side_effects"]
    result = bench.runtime.run(pinned)
    assert [outcome.code for outcome in result.outcomes] == [OK, OK, TOO_MANY]


# -- at once ----------------------------------------------------------------------------------------------------------


def test_parallel_calls_do_not_all_pass(tmp_path: Path) -> None:
    """Nothing is approved yet while all of them are before their supervisor."""

    async def slow(proposal: Proposal) -> bool:
        for _ in range(10):
            await asyncio.sleep(0)
        return True

    bench = Bench(tmp_path, *SKILLS, supervisor=slow)

    async def work() -> str:
        async with bench.runtime.session(context=limited(2)) as session:
            calls = [session.call(name, {"n": n}) for n, name in enumerate(["put", "look", "fetch", "put", "quiet"])]
            outcomes = await asyncio.gather(*calls)
            assert [outcome.code for outcome in outcomes] == [OK, OK, OK, TOO_MANY, TOO_MANY]
            return session.run_id

    run_id = asyncio.run(work())
    bench.check(run_id)
    replays(bench.store, run_id)


def test_a_place_that_a_refused_call_held_is_free_for_the_one_that_waits(tmp_path: Path) -> None:
    asked = asyncio.Event()
    answer = asyncio.Event()

    async def host(proposal: Proposal) -> bool:
        if proposal.step_id != "c1":
            return True
        asked.set()
        await answer.wait()
        return False

    bench = Bench(tmp_path, *SKILLS, supervisor=host)

    async def work() -> str:
        async with bench.runtime.session(context=limited(1)) as session:
            first = asyncio.create_task(session.call("put"))
            await asked.wait()
            second = asyncio.create_task(session.call("put"))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not second.done(), "whether there is a place for it is not known yet"
            answer.set()
            assert [(await call).code for call in (first, second)] == ["ERR_POLICY_VIOLATION", OK]
            assert (await session.call("put")).code == TOO_MANY
            return session.run_id

    run_id = asyncio.run(work())
    bench.check(run_id)
    replays(bench.store, run_id)


def test_a_call_that_waits_for_a_person_holds_no_place(tmp_path: Path) -> None:
    """It is counted when it is approved: by then another one may have taken the place."""
    bench = Bench(tmp_path, *SKILLS, supervisor=lambda proposal: "ask" if proposal.step_id == "c1" else True)
    with bench.runtime.session(context=limited(1)) as session:
        with pytest.raises(WaitingForPerson):
            session.call("put")
        assert session.call("fetch").ok
    asyncio.run(people.vote(bench.runtime, session.run_id, "c1", approve=True, reason="fine"))
    with bench.runtime.session(resume=session.run_id, interrupted="settle") as again:
        assert TOO_MANY in str(again.history()[1]["content"])
    bench.check(session.run_id)
    replays(bench.store, session.run_id)


class Made(NamedTuple):
    """One call of a session: with which skill, how long its host takes, and what it says."""

    skill_id: str
    patience: int
    approved: bool
    key: bool


made = st.builds(
    Made, st.sampled_from([each.skill_id for each in SKILLS if each is not either]), st.integers(0, 6), st.booleans(),
    st.booleans(),
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
@given(st.lists(made, min_size=2, max_size=7), st.integers(0, 4), st.sampled_from([1, 2]))
def test_whatever_runs_at_once_the_limit_holds_nothing_is_refused_below_it_and_a_replay_agrees(
    calls: list[Made], most: int, sessions: int
) -> None:
    """Sessions side by side share their commits: then decisions of several calls stand in one."""

    async def host(proposal: Proposal) -> bool:
        call = calls[int(proposal.step_id.removeprefix("c")) - 1]
        for _ in range(call.patience):
            await asyncio.sleep(0)
        return call.approved

    clock = FixedClock()
    runtime = Runtime(opened(":memory:", clock=clock), skills=Registry(SKILLS), supervisor=host, clock=clock)

    async def work() -> tuple[str, list[str]]:
        async with runtime.session(context=limited(most)) as session:
            outcomes = await asyncio.gather(*(
                session.call(call.skill_id, {"n": n}, idempotency_key=f"{session.run_id}-{n}" if call.key else None)
                for n, call in enumerate(calls)
            ))  # fmt: skip
            return session.run_id, [outcome.code for outcome in outcomes]

    async def side_by_side() -> list[tuple[str, list[str]]]:
        return list(await asyncio.gather(*(work() for _ in range(sessions))))

    for run_id, found in asyncio.run(side_by_side()):
        external = [code for call, code in zip(calls, found, strict=True) if call.skill_id != "look"]
        assert external.count(OK) <= most
        assert TOO_MANY not in external or external.count(OK) == most
        replays(runtime.store, run_id)


# -- after a crash ----------------------------------------------------------------------------------------------------

MIXED: tuple[Skill, ...] = (look, fetch, put, look, quiet, look)
"""Over and over; half of them count."""


@pytest.mark.parametrize("point", ["before_commit", "after_commit", "before_dispatch", "after_dispatch"])
@pytest.mark.parametrize("times", [2, 4, 6])
def test_after_kill_9_the_count_is_what_the_journal_says(point: str, times: int, stage: Stage) -> None:
    run = plan(*(step(each) for each in [*MIXED, *MIXED]), **limited(4))
    expected = [outcome.code for outcome in Runtime(store_at(":memory:"), skills=SKILLS).run(run).outcomes]
    assert expected.count(TOO_MANY) == 2

    def runtime() -> Runtime:
        return Runtime(stage.url, skills=SKILLS)

    assert in_child(lambda: runtime().run(run), crash_at=f"{point}:{times}") == KILLED
    (result,) = runtime().recover()
    assert [outcome.code for outcome in result.outcomes] == expected
    replays(result.store, result.run_id)


@pytest.mark.parametrize(("most", "refused"), [(150, 3), (153, 0)])
def test_the_count_goes_on_from_a_run_checkpoint(most: int, refused: int, stage: Stage) -> None:
    run = plan(*(step(each) for each in MIXED * 51), **limited(most))

    def runtime() -> Runtime:
        return Runtime(stage.url, skills=SKILLS)

    assert in_child(lambda: runtime().run(run), crash_at="before_dispatch:290") == KILLED
    store = open_store(stage.url)
    (row,) = store.runs()
    assert load_fold(store, row.run_id).from_commit > 0
    store.close()
    (result,) = runtime().recover()
    assert [outcome.code for outcome in result.outcomes].count(TOO_MANY) == refused
    replays(result.store, result.run_id)


@pytest.mark.parametrize("interrupted", ["synthesize", "settle"])
def test_a_session_that_was_killed_goes_on_counting(interrupted: str, stage: Stage) -> None:
    def session_of(**options: Any) -> Any:
        return Runtime(stage.url, skills=SKILLS).session(**options)

    def dies() -> None:
        with session_of(context=limited(3)) as session:
            for name in ("look", "fetch", "look", "put"):
                session.call(name)

    assert in_child(dies, crash_at="after_dispatch:4") == KILLED
    store = open_store(stage.url)
    (row,) = store.runs()
    with session_of(resume=row.run_id, interrupted=interrupted) as session:
        found = [session.call(name).code for name in ("look", "quiet", "fetch", "look")]
    assert found == [OK, OK, TOO_MANY, OK]
    replays(store, row.run_id)


def test_a_call_that_waits_for_its_host_s_person_is_still_waited_for_after_a_run_checkpoint(stage: Stage) -> None:
    def session_of(**options: Any) -> Any:
        host = lambda proposal: "ask" if proposal.step_id == "c1" else True  # noqa: E731  # said where it is used
        return Runtime(stage.url, skills=SKILLS, supervisor=host).session(**options)

    with pytest.raises(ZeroDivisionError), session_of() as session:
        with pytest.raises(WaitingForPerson):
            session.call("put")
        for n in range(257):
            session.call("look", {"n": n})
        raise ZeroDivisionError
    store = open_store(stage.url)
    assert load_fold(store, session.run_id).from_commit > 0
    with session_of(resume=session.run_id) as again:
        assert again.waiting == ["c1"]
    assert store.find_run(session.run_id).status == "waiting"
