"""Skills that reach for the task or the loop that they run in: their step fails or ends, and the run goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reenact import skill
from reenact.skills.skill import Skill
from tests.runtime.running import Bench, step


@skill("cancels", version="1.0.0", tool_class="read", retry={"max_retries": 0})
async def cancels() -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "not reached"


@skill("cancels_later", version="1.0.0", tool_class="read", retry={"max_retries": 0})
async def cancels_later() -> str:
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "not reached"


@skill("cancels_and_returns", version="1.0.0", tool_class="read")
async def cancels_and_returns() -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return "done"


@skill("stops", version="1.0.0", tool_class="read")
async def stops() -> str:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)
    return "done"


@skill("good", version="1.0.0", tool_class="read")
async def good() -> str:
    await asyncio.sleep(0)
    return "good"


CASES = [(cancels, "ERR_"), (cancels_later, "ERR_"), (cancels_and_returns, "OK"), (stops, "OK")]


@pytest.mark.parametrize(("tool", "code"), CASES)
def test_a_plan_goes_on_after_a_skill_that_reached_for_its_task_or_loop(tmp_path: Path, tool: Skill, code: str) -> None:
    bench = Bench(tmp_path, tool, good)
    result = bench.run(step(tool, on_error="continue"), step(good), step(tool, on_error="continue"), step(good))
    codes = [outcome.code for outcome in result.outcomes]
    assert result.status == "completed"
    assert [codes[1], codes[3]] == ["OK", "OK"]
    assert codes[0].startswith(code)
    assert codes[2] == codes[0]
    bench.check(result)


@pytest.mark.parametrize(("tool", "code"), CASES)
def test_a_session_goes_on_after_a_skill_that_reached_for_its_task_or_loop(
    tmp_path: Path, tool: Skill, code: str
) -> None:
    bench = Bench(tmp_path, tool, good)
    with bench.runtime.session() as session:
        assert session.call(tool.skill_id).code.startswith(code)
        assert session.call("good").code == "OK"
    bench.check(session.run_id)


def test_a_cancellation_from_outside_comes_through_one_of_its_own(tmp_path: Path) -> None:
    """The host gives up on a call whose skill has cancelled itself and is still busy with that."""

    @skill("stubborn", version="1.0.0", tool_class="read")
    async def stubborn() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            await asyncio.sleep(3600)
        return "not reached"

    bench = Bench(tmp_path, stubborn)

    async def give_up() -> None:
        async with bench.runtime.session() as session:
            await asyncio.wait_for(session.call("stubborn"), 0.05)

    # From 3.12 on, `wait_for` counts the cancellations of the task that it waits in, and finds one that is not its own.
    with pytest.raises((TimeoutError, asyncio.CancelledError)):
        asyncio.run(give_up())
