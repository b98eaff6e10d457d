"""Making recordings: a run of a plan in memory, with crashes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from reenact import Registry
from reenact.replay import Recording, ReplayResult, load_recording
from reenact.replay.modes.mock import mock_replay
from reenact.replay.runtime import Runtime
from reenact.runtime import crash_points
from reenact.runtime.gates.supervisor import SupervisorFunction
from reenact.values.clock import FixedClock
from tests.engines.places import opened
from tests.replay.skills import registry
from tests.runtime.running import LOADS_ANY


class Crash(BaseException):
    """The process is gone, as far as the journal can tell."""


class Armed:
    """Stands in for the trigger that kills the process: it raises, and the test goes on with a new runtime."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.left = name, count

    def reach(self, name: str) -> None:
        if name == self.name:
            self.left -= 1
            if self.left == 0:
                raise Crash(name)


@contextmanager
def armed(name: str, count: int) -> Iterator[None]:
    crash_points.armed = Armed(name, count)  # type: ignore[assignment]
    try:
        yield
    finally:
        crash_points.armed = None


def memory_runtime(skills: Registry | None = None, *, seed: int = 0, host: SupervisorFunction | None = None) -> Runtime:
    clock = FixedClock(seed=seed)
    store = opened(":memory:", clock=clock)
    return Runtime(store, skills=skills or registry(), supervisor=host, policy=LOADS_ANY, clock=clock)


async def record(runtime: Runtime, plan: dict[str, Any], crashes: Iterable[tuple[str, int]] = ()) -> str:
    """Run the plan to its end, through every crash; the id of the run."""
    run_id = runtime.clock.uuid7()
    for name, count in crashes:
        with armed(name, count):
            try:
                await start_or_resume(runtime, plan, run_id)
            except Crash:
                runtime.clock.advance(60)  # type: ignore[attr-defined]  # the lease of the dead lapses
    await start_or_resume(runtime, plan, run_id)
    return run_id


async def start_or_resume(runtime: Runtime, plan: dict[str, Any], run_id: str) -> None:
    if any(row.run_id == run_id for row in runtime.store.runs()):
        await runtime.resume_async(run_id)
    else:
        await runtime.run_async(plan, run_id=run_id)


def recorded(
    plan: dict[str, Any], crashes: Iterable[tuple[str, int]] = (), *, host: SupervisorFunction | None = None
) -> Recording:
    runtime = memory_runtime(host=host)
    run_id = asyncio.run(record(runtime, plan, crashes))
    return load_recording(runtime.store, run_id)


def mocked(recording: Recording, skills: Registry | None = None, **options: Any) -> ReplayResult:
    return asyncio.run(mock_replay(recording, registry() if skills is None else skills, **options))
