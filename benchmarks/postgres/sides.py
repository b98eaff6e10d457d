"""The same steps done by one of several: `python -m benchmarks.postgres.sides SIDE URL`.

Each line on the standard input, `RUNS STEPS`, is so many runs side by side of so many steps each; the answer is the
seconds that they took. One run is done as a program does that has only one; several in one loop.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import Any

from benchmarks.figure import seconds
from benchmarks.in_flight import EachAlone
from benchmarks.plan import check
from benchmarks.plans import SKILLS, plan
from reenact import Runtime

Work = Callable[[int, int], object]
"""(runs, steps)"""
ROW_BYTES = 2500
"""About what a step of ours stores."""


@contextmanager
def reenact(url: str, *, together: bool = True) -> Iterator[Work]:
    runtime = Runtime(url, skills=SKILLS)
    if not together:
        runtime.committer = EachAlone(runtime.store)

    async def many(runs: int, steps: int) -> None:
        documents = [plan(steps, "note_after_a_while") for _ in range(runs)]
        for result in await asyncio.gather(*(runtime.run_async(document) for document in documents)):
            check(result.status == "completed")

    def work(runs: int, steps: int) -> None:
        if runs == 1:
            check(runtime.run(plan(steps)).ok)
        else:
            asyncio.run(many(runs, steps))

    yield work
    runtime.close()


@contextmanager
def dbos(url: str) -> Iterator[Work]:
    """As its documentation writes it: a workflow whose steps are recorded."""
    from dbos import DBOS

    @DBOS.step()
    def note(text: str, count: int) -> dict[str, Any]:
        return {"said": text, "next": count + 1}

    @DBOS.step()
    async def note_after_a_while(text: str, count: int) -> dict[str, Any]:
        await asyncio.sleep(0.002)
        return {"said": text, "next": count + 1}

    @DBOS.workflow()
    def one(steps: int) -> int:
        return sum(note(f"the note of step {number}", number)["next"] for number in range(steps))

    @DBOS.workflow()
    async def one_of_many(steps: int) -> int:
        said = [await note_after_a_while(f"the note of step {number}", number) for number in range(steps)]
        return sum(each["next"] for each in said)

    async def many(runs: int, steps: int) -> None:
        for done in await asyncio.gather(*(one_of_many(steps) for _ in range(runs))):
            check(done == steps * (steps + 1) // 2)

    address = url.partition("?")[0].replace("postgresql://", "postgresql+psycopg://")
    DBOS(
        config={"name": "benchmark", "system_database_url": address, "log_level": "ERROR", "console_log_level": "ERROR"}
    )
    DBOS.launch()
    loop = asyncio.new_event_loop()

    def work(runs: int, steps: int) -> None:
        if runs == 1:
            check(one(steps) == steps * (steps + 1) // 2)
        else:
            loop.run_until_complete(many(runs, steps))

    yield work
    loop.close()
    DBOS.destroy()


@contextmanager
def raw_loop(url: str) -> Iterator[Work]:
    """A row of the same bytes, inserted and committed, and no more."""
    import psycopg

    with psycopg.connect(url.partition("?")[0], autocommit=True) as db:
        table = f"raw_{uuid.uuid4().hex}"
        db.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, digest bytea NOT NULL, body bytea NOT NULL)".encode())
        numbers = iter(range(1 << 62))

        def work(runs: int, steps: int) -> None:
            for _ in range(runs * steps):
                row = os.urandom(ROW_BYTES)
                values = (next(numbers), sha256(row).digest(), row)
                db.execute(f"INSERT INTO {table} VALUES (%s, %s, %s)".encode(), values, binary=True)

        yield work


SIDES: dict[str, Callable[[str], Any]] = {
    "reenact": reenact,
    "a transaction per step": lambda url: reenact(url, together=False),
    "dbos": dbos,
    "raw loop": raw_loop,
}


def main(side: str, url: str) -> None:
    with ExitStack() as stack:
        work = stack.enter_context(SIDES[side](url))
        print("ready", flush=True)
        for line in sys.stdin:
            runs, steps = map(int, line.split())
            print(seconds(lambda runs=runs, steps=steps: work(runs, steps)), flush=True)  # type: ignore[misc]


if __name__ == "__main__":
    main(*sys.argv[1:])
