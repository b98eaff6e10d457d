"""A supervisor function is a guest: it holds nobody up, its time is bounded, and it changes and ends nothing."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import UsageError
from reenact.runtime.gates.supervisor import Proposal
from tests.engines.places import store_at
from tests.runtime.running import Bench, outcome_of, step

SEEN: list[dict[str, Any]] = []


@skill("send", version="1.0.0", tool_class="write")
async def send(order: dict[str, Any], token: str = "") -> str:
    """Keeps what it was called with."""
    SEEN.append({"order": order, "token": token})
    return "sent"


@skill("look", version="1.0.0", tool_class="read")
async def look(n: int = 0) -> int:
    """Reads."""
    return n


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


def test_functions_that_are_not_async_are_asked_side_by_side(tmp_path: Path) -> None:
    together = threading.Barrier(4, timeout=20)

    def waits_for_the_others(proposal: Proposal) -> bool:
        together.wait()
        return True

    async def scene() -> list[str]:
        runtime = Runtime(store_at(tmp_path / "store.db"), skills=[look], supervisor=waits_for_the_others)
        async with runtime.session() as session:
            outcomes = await asyncio.gather(*(session.call("look", {"n": n}) for n in range(4)))
        return [outcome.code for outcome in outcomes]

    assert asyncio.run(scene()) == ["OK"] * 4


def never_answers(proposal: Proposal) -> bool:
    return threading.Event().wait()


async def never_answers_async(proposal: Proposal) -> bool:
    await asyncio.Event().wait()
    return True


@pytest.mark.parametrize("function", [never_answers, never_answers_async])
def test_no_answer_in_time_is_a_no(function: Callable[..., Any], tmp_path: Path) -> None:
    bench = Bench(tmp_path, look, supervisor=function, supervisor_timeout_s=0.05)
    result = bench.run(step(look))
    outcome = outcome_of(result)
    assert outcome.code == "ERR_POLICY_VIOLATION"
    assert (outcome.details or {})["supervisor_error"] == "NoAnswer"
    bench.check(result)
    assert bench.runtime.replay(result.run_id).verdict == "matched"


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_time_that_is_none_is_refused(limit: float, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="supervisor_timeout_s"):
        Runtime(store_at(tmp_path / "store.db"), supervisor_timeout_s=limit)


def exits(proposal: Proposal) -> bool:
    sys.exit(3)


async def exits_async(proposal: Proposal) -> bool:
    sys.exit(3)


async def gives_up(proposal: Proposal) -> bool:
    raise asyncio.CancelledError


def times_out(proposal: Proposal) -> bool:
    raise TimeoutError


@pytest.mark.parametrize(("function", "name"), [
    (exits, "SystemExit"), (exits_async, "SystemExit"), (gives_up, "CancelledError"), (times_out, "TimeoutError"),
])  # fmt: skip
def test_what_a_function_raises_is_a_no_and_ends_nothing_else(
    function: Callable[..., Any], name: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, look, supervisor=function)
    result = bench.run(step(look), step(look), on_error="continue")
    assert [outcome.code for outcome in result.outcomes] == ["ERR_POLICY_VIOLATION"] * 2
    assert (result.outcomes[0].details or {})["supervisor_error"] == name
    bench.check(result)


def test_an_interrupt_that_no_signal_made_is_a_no(tmp_path: Path) -> None:
    """The loop of a session has a thread of its own, which no signal comes to."""

    async def interrupts(proposal: Proposal) -> bool:
        raise KeyboardInterrupt

    bench = Bench(tmp_path, look, supervisor=interrupts)
    with bench.runtime.session(id="order-7") as session:
        assert [session.call("look", {}).code for _ in range(2)] == ["ERR_POLICY_VIOLATION"] * 2


def hands_back(function: Callable[[Proposal], Any], proposal: Proposal) -> Any:
    return function(proposal)


def test_a_function_may_hand_back_a_coroutine(tmp_path: Path) -> None:
    async def says_yes(proposal: Proposal) -> bool:
        await asyncio.sleep(0)
        return True

    bench = Bench(tmp_path, look, supervisor=functools.partial(hands_back, says_yes))
    assert outcome_of(bench.run(step(look))).code == "OK"


def test_a_call_that_is_given_up_is_given_up_while_its_supervisor_thinks(tmp_path: Path) -> None:
    release = threading.Event()
    asked = threading.Event()

    def slow(proposal: Proposal) -> bool:
        asked.set()
        return release.wait(20)

    async def scene() -> None:
        runtime = Runtime(store_at(tmp_path / "store.db"), skills=[look], supervisor=slow)
        async with runtime.session() as session:
            call = asyncio.create_task(session.call("look", {}))
            await asyncio.to_thread(asked.wait, 20)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            release.set()

    asyncio.run(scene())


def test_a_function_sees_a_copy_in_which_secrets_are_names(tmp_path: Path) -> None:
    shown: list[object] = []

    def meddles(proposal: Proposal) -> bool:
        shown.append(dict(proposal.parameters, order=dict(proposal.parameters["order"])))  # type: ignore[call-overload]
        order: Any = proposal.parameters["order"]
        order["lines"][0]["cents"] = 1_000_000
        order["lines"].append({"cents": 2})
        order["$note"] = "changed"
        proposal.parameters["token"] = "another"
        return True

    async def scene() -> None:
        runtime = Runtime(
            store_at(tmp_path / "store.db"), skills=[send], secrets={"TOKEN": "tok-very-secret-1"}, supervisor=meddles
        )
        async with runtime.session() as session:
            order = {"lines": [{"cents": 5}], "$note": "as said"}
            await session.call("send", {"order": order, "token": ""}, secrets={"/token": "TOKEN"})

    asyncio.run(scene())
    assert SEEN == [{"order": {"lines": [{"cents": 5}], "$note": "as said"}, "token": "tok-very-secret-1"}]
    (seen,) = shown
    assert isinstance(seen, dict)
    assert seen["token"] == {"$secret": "TOKEN"}
    assert seen["order"]["$note"] == "as said"
