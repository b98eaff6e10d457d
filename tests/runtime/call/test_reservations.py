"""Money is reserved when a call is approved: calls side by side, runs and processes together do not overspend."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reenact import Registry, Runtime, SkillContext, skill
from reenact.errors import SkillError, WaitingForPerson
from reenact.runtime.gates.supervisor import Proposal
from reenact.runtime.people import decisions as people
from reenact.runtime.session.session import Session
from reenact.skills.skill import Skill
from reenact.store.base import Appended, Lease, Store, Unit
from tests.crash.harness import in_child
from tests.engines.places import ask, store_at
from tests.runtime.running import Bench, plan, step

OK, TOO_MUCH = "OK", "ERR_BUDGET_EXCEEDED"
CENT = 10_000_000_000


async def others_first() -> None:
    """Everybody else who can go on does."""
    for _ in range(50):
        await asyncio.sleep(0)


@skill("costly", version="1.0.0", tool_class="read", cost_estimate_cents=4)
async def costly(n: int = 0) -> int:
    """Costs four cents, and gives the loop away meanwhile."""
    await others_first()
    return n


@skill("shaky", version="1.0.0", tool_class="read", cost_estimate_cents=4)
async def shaky(ctx: SkillContext, n: int = 0) -> int:
    """Fails at first, which costs as much."""
    await others_first()
    if ctx.attempt == 0:
        raise SkillError.of("ERR_HTTP_503", "later")
    return n


@skill("cheaper", version="1.0.0", tool_class="read", cost_model="tokens")
async def cheaper(ctx: SkillContext, n: int = 0, model: str = "m", max_tokens: int = 4, waits: int = 50) -> int:
    """Might cost four cents, and comes to cost one."""
    for _ in range(waits):
        await asyncio.sleep(0)
    ctx.usage(0, 1)
    return n


SKILLS: tuple[Skill, ...] = (costly, shaky, cheaper)
CENT_A_TOKEN: dict[str, Any] = {"prices": {"models": {"m": {"input": "0", "output": str(CENT)}}}}


def replays(store: Store, run_id: str) -> None:
    for skills in (Registry(SKILLS), Registry()):
        result = Runtime(store, skills=skills).replay(run_id)
        assert result.verdict == "matched", result.divergence


def five(session: Session, name: str = "costly") -> Awaitable[list[Any]]:
    return asyncio.gather(*(session.call(name, {"n": n}) for n in range(5)))


async def in_a_session(bench: Bench, calls: Callable[[Session], Awaitable[list[Any]]], **options: Any) -> list[str]:
    """The codes of the calls; what they left verifies and replays."""
    async with bench.runtime.session(**options) as session:
        outcomes = await calls(session)
    bench.check(session.run_id)
    await asyncio.to_thread(replays, bench.store, session.run_id)
    return [outcome.code for outcome in outcomes]


# -- one run ----------------------------------------------------------------------------------------------------------


async def never(proposal: Proposal) -> bool:
    await others_first()
    return False


async def always(proposal: Proposal) -> bool:
    """Takes longer over earlier calls, so that they are decided in another order than they were made."""
    for _ in range(5 - int(str(proposal.parameters["n"]))):
        await others_first()
    return True


def test_calls_side_by_side_do_not_spend_more_than_the_run_has(tmp_path: Path) -> None:
    async def scene() -> list[str]:
        bench = Bench(tmp_path, *SKILLS)
        async with bench.runtime.session():  # so that commits are grouped, and approvals wait for theirs
            return await in_a_session(bench, five, budget_cents=10)

    assert sorted(asyncio.run(scene())) == [TOO_MUCH] * 3 + [OK] * 2


def test_while_a_supervisor_thinks_the_money_is_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path, *SKILLS, supervisor=always)
    codes = asyncio.run(in_a_session(bench, five, budget_cents=10))
    assert sorted(codes) == [TOO_MUCH] * 3 + [OK] * 2


def test_what_a_supervisor_refuses_is_there_for_the_next_call(tmp_path: Path) -> None:
    async def only_the_last(proposal: Proposal) -> bool:
        await others_first()
        return proposal.parameters["n"] == 4

    bench = Bench(tmp_path, *SKILLS, supervisor=only_the_last)
    codes = asyncio.run(in_a_session(bench, five, budget_cents=4))
    assert codes == ["ERR_POLICY_VIOLATION"] * 4 + [OK]


def test_a_call_that_waits_for_a_person_keeps_no_money(tmp_path: Path) -> None:
    async def scene() -> str:
        bench = Bench(tmp_path, *SKILLS, supervisor=lambda proposal: "ask" if proposal.parameters["n"] == 0 else True)
        async with bench.runtime.session(budget_cents=4) as session:
            with pytest.raises(WaitingForPerson):
                await session.call("costly", {"n": 0})
            return (await session.call("costly", {"n": 1})).code

    assert asyncio.run(scene()) == OK


def test_a_call_that_is_given_up_while_its_supervisor_thinks_keeps_no_money(tmp_path: Path) -> None:
    async def slow_for_the_first(proposal: Proposal) -> bool:
        if proposal.parameters["n"] == 0:
            await asyncio.Event().wait()
        return True

    async def scene() -> str:
        bench = Bench(tmp_path, *SKILLS, supervisor=slow_for_the_first)
        async with bench.runtime.session(budget_cents=4) as session:
            given_up = asyncio.create_task(session.call("costly", {"n": 0}))
            await others_first()
            second = asyncio.create_task(session.call("costly", {"n": 1}))
            await others_first()
            given_up.cancel()
            return (await second).code

    assert asyncio.run(scene()) == OK


def test_a_soft_budget_lets_all_of_them_go_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, *SKILLS, supervisor=always)
    soft = {"budget": {"mode": "soft", "per_day_cents": 10}}
    assert asyncio.run(in_a_session(bench, five, budget_cents=10, context=soft)) == [OK] * 5


@pytest.mark.parametrize("seed", range(6))
def test_who_asks_before_a_cost_is_known_is_refused_by_what_is_reserved_in_a_replay_too(
    seed: int, tmp_path: Path
) -> None:
    """Calls of random length, supervisors of random slowness: commits hold decisions and results in any order."""
    chance = Random(seed)
    turns = [chance.randrange(30) for _ in range(24)]

    async def slow(proposal: Proposal) -> bool:
        for _ in range(turns[int(str(proposal.parameters["n"]))]):
            await asyncio.sleep(0)
        return True

    async def many(session: Session) -> list[Any]:
        calls = (session.call("cheaper", {"n": n, "waits": chance.randrange(60)}) for n in range(24))
        return list(await asyncio.gather(*calls))

    async def scene() -> list[str]:
        bench = Bench(tmp_path, *SKILLS, supervisor=slow if seed % 2 else None)
        async with bench.runtime.session():
            return await in_a_session(bench, many, budget_cents=20, context=CENT_A_TOKEN)

    codes = asyncio.run(scene())
    assert set(codes) == {OK, TOO_MUCH}
    assert codes.count(OK) <= 20


# -- days, models, runs, processes ------------------------------------------------------------------------------------


def of_the_day(cents: int, **budget: Any) -> dict[str, Any]:
    return {"budget": {"per_day_cents": cents, **budget}}


def test_calls_side_by_side_do_not_spend_more_than_the_day_has(tmp_path: Path) -> None:
    async def scene() -> list[str]:
        bench = Bench(tmp_path, *SKILLS)
        async with bench.runtime.session(agent_id="other"):
            return await in_a_session(bench, five, context=of_the_day(10))

    assert sorted(asyncio.run(scene())) == [TOO_MUCH] * 3 + [OK] * 2


def test_runs_side_by_side_do_not_spend_more_than_the_day_of_their_agent_has(tmp_path: Path) -> None:
    bench = Bench(tmp_path, *SKILLS)
    results = bench.gather(*[plan(step(costly), **of_the_day(10))] * 5)
    assert sorted(result.outcomes[0].code for result in results) == [TOO_MUCH] * 3 + [OK] * 2
    for result in results:
        bench.check(result)
        replays(bench.store, result.run_id)


def test_a_model_has_a_budget_of_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path, *SKILLS)
    context = {**CENT_A_TOKEN, "budget": {"per_model_cents": {"m": 9}}}
    results = bench.gather(*[plan(step(cheaper), **context)] * 5)
    codes = [result.outcomes[0].code for result in results]
    assert codes.count(OK) == 2
    assert codes.count(TOO_MUCH) == 3
    assert bench.run(step(cheaper), **context).outcomes[0].code == OK  # two cents came to be spent


def test_processes_side_by_side_do_not_spend_more_than_the_day_of_their_agent_has(tmp_path: Path) -> None:
    """Each has a store of its own on the same file, as processes have."""
    benches = [Bench(tmp_path, *SKILLS) for _ in range(5)]

    async def scene() -> list[str]:
        runs = (bench.runtime.run_async(plan(step(costly), **of_the_day(10))) for bench in benches)
        return [result.outcomes[0].code for result in await asyncio.gather(*runs)]

    assert sorted(asyncio.run(scene())) == [TOO_MUCH] * 3 + [OK] * 2
    assert sum(benches[0].store.spent(today(benches[0]), "agent").values()) == 8 * CENT


def today(bench: Bench) -> str:
    return bench.runtime.clock.timestamp()[:10]


def test_a_keyed_call_that_finds_the_money_gone_leaves_its_key_free(tmp_path: Path) -> None:
    bench = Bench(tmp_path, *SKILLS)
    steps = [plan(step(costly, idempotency_key=f"k{n}"), **of_the_day(10)) for n in range(5)]
    results = bench.gather(*steps)
    assert sorted(result.outcomes[0].code for result in results) == [TOO_MUCH] * 3 + [OK] * 2
    for result in results:
        bench.check(result)
        replays(bench.store, result.run_id)


def test_what_is_set_apart_is_free_when_the_call_has_ended(tmp_path: Path) -> None:
    bench = Bench(tmp_path, *SKILLS)
    assert bench.run(step(cheaper), **CENT_A_TOKEN, **of_the_day(9)).outcomes[0].code == OK
    assert bench.store.set_apart(today(bench), "agent") == {}
    assert bench.store.spent(today(bench), "agent") == {"m": CENT}


def test_a_run_that_is_killed_keeps_its_agent_from_nothing_and_counts_again_when_it_goes_on(tmp_path: Path) -> None:
    assert in_child(lambda: Bench(tmp_path, *SKILLS).run(step(costly), **of_the_day(4)), crash_at="before_dispatch")
    bench = Bench(tmp_path, *SKILLS)
    assert bench.store.set_apart(today(bench), "agent") == {}
    assert bench.run(step(costly), **of_the_day(4)).outcomes[0].code == OK
    killed = bench.store.runs()[-1].run_id
    lease = bench.store.acquire(killed, "somebody")
    assert bench.store.set_apart(today(bench), "agent") == {"": 4 * CENT}
    bench.store.release(lease)
    assert bench.runtime.resume(killed).outcomes[0].code == TOO_MUCH  # its doubt counts, and the day is spent
    assert bench.store.set_apart(today(bench), "agent") == {}
    bench.check(killed)


def test_a_run_that_ends_over_an_open_call_sets_nothing_apart_any_more(tmp_path: Path) -> None:
    assert in_child(lambda: Bench(tmp_path, *SKILLS).run(step(costly), **of_the_day(4)), crash_at="before_dispatch")
    bench = Bench(tmp_path, *SKILLS)
    run_id = bench.store.runs()[-1].run_id
    assert asyncio.run(people.cancel(bench.runtime, run_id, who="ada", reason="no longer wanted"))
    assert ask(bench.path, "SELECT count(*) FROM earmarks") == [(0,)]
    bench.check(run_id)


def test_a_plan_without_a_limit_beyond_its_run_sets_nothing_apart(tmp_path: Path) -> None:
    bench = Bench(tmp_path, *SKILLS)
    units: list[Unit] = []
    append = bench.store.append

    def watched(unit: Unit, lease: Lease | None, *, owner: str = "") -> Appended:
        units.append(unit)
        return append(unit, lease, owner=owner)

    bench.store.append = watched  # type: ignore[method-assign]
    bench.run(step(costly), budget_cents=10)
    assert units
    assert not any(unit.earmarks or unit.ended for unit in units)


@pytest.mark.parametrize("cents", [20, 24, 30, 39])
def test_retries_side_by_side_do_not_spend_more_than_the_day_has(cents: int, tmp_path: Path) -> None:
    """What others spent since the call was approved counts for its retries."""

    async def scene() -> list[str]:
        bench = Bench(tmp_path, *SKILLS)
        retry = {"retry": {"max_retries": 2, "backoff_base_ms": 1}}
        async with bench.runtime.session(agent_id="other"):
            codes = await in_a_session(
                bench,
                lambda session: five(session, "shaky"),
                agent_id="spender",
                context={**of_the_day(cents), **retry},
            )
        assert sum(bench.store.spent(today(bench), "spender").values()) <= cents * CENT
        return codes

    assert TOO_MUCH in asyncio.run(scene())


def test_calls_side_by_side_are_refused_by_the_gate_and_warned_about_for_a_day_too(tmp_path: Path) -> None:
    """What one of them reserves counts for the others before its commit is durable."""
    for mode, codes, alerts in (("hard", [OK, TOO_MUCH, TOO_MUCH], 0), ("soft", [OK, OK, OK], 2)):
        heard: list[str] = []
        runtime = Runtime(
            store_at(tmp_path / f"{mode}.db"),
            skills=[costly],
            listeners=[lambda notice, to=heard: to.append(notice.kind)],
        )
        context = {"budget": {"per_day_cents": 7, "mode": mode}}

        async def work(runtime: Runtime = runtime, context: dict[str, Any] = context) -> list[Any]:
            async with runtime.session(context=context) as session:
                return list(await asyncio.gather(*(session.call("costly", {"n": n}) for n in range(3))))

        outcomes = asyncio.run(work())
        assert sorted(outcome.code for outcome in outcomes) == sorted(codes)
        refused = [outcome for outcome in outcomes if outcome.code == TOO_MUCH]
        assert all(outcome.details["gate"] == "budget" for outcome in refused)
        assert heard.count("budget_alert") >= alerts
