"""A clock that is set, forward or back, at any moment of a run: the run ends, and its record verifies and replays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from reenact import Registry, SkillContext, skill
from reenact.replay import load_recording
from reenact.replay.runtime import Runtime
from reenact.store.base import Store
from reenact.values.clock import FixedClock
from reenact.verify import Report, verify_lines
from tests.engines.places import opened
from tests.replay.recording import mocked

LIFETIME_S = 300


@skill("try_it", version="1.0.0", tool_class="read", retry={"backoff_base_ms": 1})
def try_it(ctx: SkillContext, failures: int = 0) -> int:
    if ctx.attempt < failures:
        raise TimeoutError
    return ctx.attempt


REGISTRY = Registry([try_it])
PLAN: dict[str, object] = {
    "plan_id": "clocks",
    "agent_id": "agent",
    "steps": [
        {"step_id": "one", "skill_id": "try_it", "parameters": {"failures": 1}, "on_error": "continue"},
        {"step_id": "keyed", "skill_id": "try_it", "idempotency_key": "k", "on_error": "continue"},
        {"step_id": "last", "skill_id": "try_it", "on_error": "continue"},
    ],
    "context": {"budget": {"per_day_cents": 100}},
}


class SetOnce(FixedClock):
    """Stands still, and is set by `seconds` when it is looked at for the `at`-th time."""

    def __init__(self, at: int, seconds: int) -> None:
        super().__init__()
        self.looks, self._at, self._seconds = 0, at, seconds

    def now_ms(self) -> int:
        self.looks += 1
        return super().now_ms() + (self._seconds * 1000 if self.looks >= self._at else 0)


def judge(store: Store, run_id: str) -> Report:
    kept = dict(store.payloads(run_id))
    return verify_lines(store.bodies(run_id), Kept(kept), keys=store.public_keys())


class Kept:
    def __init__(self, envelopes: dict[str, bytes]) -> None:
        self._envelopes = envelopes

    def get(self, commitment: str, /) -> bytes | None:
        return self._envelopes.get(commitment)


def run_plan(clock: SetOnce) -> tuple[Store, str]:
    store = opened(":memory:", clock=clock)
    return store, Runtime(store, skills=REGISTRY, clock=clock).run(PLAN).run_id


def run_session(clock: SetOnce) -> tuple[Store, str]:
    store = opened(":memory:", clock=clock)

    async def calls() -> str:
        async with Runtime(store, skills=REGISTRY, clock=clock).session(agent_id="agent") as session:
            await asyncio.gather(*(session.call("try_it", {"failures": number % 2}) for number in range(2)))
            await session.turn()
            await session.call("try_it", idempotency_key="k")
        return session.run_id

    return store, asyncio.run(calls())


@pytest.mark.parametrize("seconds", [-3600, -1, LIFETIME_S - 1, LIFETIME_S, 86_400])
@pytest.mark.parametrize("run", [run_plan, run_session])
def test_a_clock_that_is_set_at_any_moment_leaves_a_run_that_verifies_and_replays(
    run: Callable[[SetOnce], tuple[Store, str]], seconds: int
) -> None:
    still = SetOnce(0, 0)
    run(still)
    lapsed = 0
    for at in range(1, still.looks + 1, 1 if seconds == LIFETIME_S else 5):
        store, run_id = run(SetOnce(at, seconds))
        report = judge(store, run_id)
        assert (report.exit_code, report.first_break) == (0, None), at
        lapsed += b"ERR_POLICY_VIOLATION" in b"".join(store.bodies(run_id))
        if seconds == LIFETIME_S and at % 5 == 0:
            assert mocked(load_recording(store, run_id), REGISTRY).matches, at
    assert lapsed > 0 or seconds != LIFETIME_S, "a moment between an approval and its call"
