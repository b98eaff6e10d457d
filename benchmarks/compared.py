"""The work that two versions are compared by: plans and sessions of two sizes, through the public doors alone.

Run by its path with the version's sources first on PYTHONPATH, so that both do the same:
    python -P benchmarks/compared.py SOURCES SMALL LARGE

Each piece of work has a process of its own, forked after what they share is imported. One line each on the standard
output: kind, size, process number, seconds of CPU.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import reenact
from reenact import Runtime, skill


@skill("note", version="1.0.0", idempotent=True)
async def note(text: str, count: int) -> dict[str, str | int]:
    """What is left of a step when its skill takes no time."""
    return {"said": text, "next": count + 1}


def parameters(number: int) -> dict[str, object]:
    return {"text": f"the note of step {number}", "count": number}


def plan(runtime: Runtime, size: int) -> bool:
    steps = [
        {"step_id": f"step-{n}", "skill_id": "note", "skill_version": "1.0.0", "parameters": parameters(n)}
        for n in range(size)
    ]
    return runtime.run({"plan_id": "small-steps", "agent_id": "compare", "goal": "many small steps", "steps": steps}).ok


def session(runtime: Runtime, size: int) -> bool:
    """The calls, and the end of the session with them: each call has its share of it."""

    async def calls() -> bool:
        async with runtime.session(goal="many small calls", agent_id="compare") as opened:
            outcomes = [await opened.call("note", parameters(number)) for number in range(size)]
        return all(outcome.status == "success" for outcome in outcomes)

    return asyncio.run(calls())


KINDS = {"plan": plan, "session": session}


def work(kind: str, size: int) -> None:
    began = time.process_time()
    with TemporaryDirectory() as folder:
        runtime = Runtime(f"sqlite:///{folder}/compared.db", skills=[note])
        assert KINDS[kind](runtime, size), "work that fails measures nothing"
        runtime.close()
    print(kind, size, os.getpid(), time.process_time() - began, flush=True)


def in_a_fork(kind: str, size: int) -> None:
    child = os.fork()
    if child == 0:
        work(kind, size)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(1)


def main(sources: str, *sizes: str) -> None:
    assert Path(reenact.__file__).is_relative_to(Path(sources).resolve()), f"{reenact.__file__} is not in {sources}"
    for kind in KINDS:
        for size in sizes:
            in_a_fork(kind, int(size))


if __name__ == "__main__":
    main(*sys.argv[1:])
