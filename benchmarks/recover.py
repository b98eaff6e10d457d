"""A hundred interrupted runs, recovered one at a time and side by side. No guard: it depends on the tools."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.plan import check
from benchmarks.plans import workplace
from reenact import Runtime, SkillContext, skill
from reenact.runtime.recovery import JOBS

RUNS = 100
TOOL_S = 0.05
"""What the tool takes to answer."""


@skill("quick", version="1.0.0", tool_class="write", honours_key=True)
async def quick(ctx: SkillContext) -> str:
    """Answers at once, but not to the process that is to be killed."""
    return await answer(ctx, 0.0)


@skill("slow", version="1.0.0", tool_class="write", honours_key=True)
async def slow(ctx: SkillContext) -> str:
    """Answers after a while."""
    return await answer(ctx, TOOL_S)


async def answer(ctx: SkillContext, seconds: float) -> str:
    if "BENCH_ARRIVED" in os.environ:
        note_arrival(Path(os.environ["BENCH_ARRIVED"]), ctx.run_id)
        await asyncio.sleep(600)
    await asyncio.sleep(seconds)
    return ctx.step_id


def note_arrival(arrived: Path, run_id: str) -> None:
    with arrived.open("a", encoding="utf-8") as book:
        book.write(f"{run_id}\n")


def measure(runs: int = RUNS) -> list[Figure]:
    return [figure for name in ("quick", "slow") for figure in recovered(name, runs)]


def recovered(name: str, runs: int) -> list[Figure]:
    with workplace() as folder:
        interrupted = folder / "interrupted"
        interrupted.mkdir()
        interrupt(interrupted, name, runs)
        took = {}
        for jobs in (1, JOBS):
            copy = folder / f"{jobs}-at-once"
            shutil.copytree(interrupted, copy)
            took[jobs] = recover(copy, runs, jobs)
    (one_s, one_cpu, one), (many_s, many_cpu, many) = took[1], took[JOBS]
    check(one == many)
    note = f"{one_s:.2f} s and {many_s:.2f} s; CPU {one_cpu:.2f} s and {many_cpu:.2f} s"
    return [Figure(name=f"{runs} runs recovered, {name} tool, {JOBS} at once", value=one_s / many_s, note=note)]


def interrupt(folder: Path, name: str, runs: int) -> None:
    """A process that is killed in the midst of one call of each run."""
    arrived = folder / "arrived"
    arrived.touch()
    document = {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": f"s{n}", "skill_id": name} for n in range(3)]}
    child = os.fork()
    if child == 0:
        os.environ["BENCH_ARRIVED"] = str(arrived)
        runtime = Runtime(str(folder / "store.db"), skills=[quick, slow])

        async def all_of_them() -> None:
            await asyncio.gather(*(runtime.run_async(document) for _ in range(runs)))

        asyncio.run(all_of_them())
    while len(arrived.read_text(encoding="utf-8").split()) < runs:
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def recover(folder: Path, runs: int, jobs: int) -> tuple[float, float, dict[str, list[object]]]:
    """(seconds, seconds of CPU, what each run came to)."""
    runtime = Runtime(str(folder / "store.db"), skills=[quick, slow])
    began, cpu = time.perf_counter(), time.process_time()
    results = runtime.recover(jobs=jobs)
    wall, used = time.perf_counter() - began, time.process_time() - cpu
    check([result.status for result in results] == ["completed"] * runs)
    return wall, used, {result.run_id: [outcome.output for outcome in result.outcomes] for result in results}
