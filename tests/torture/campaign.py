"""Runs the cases of a sweep side by side in two processes, counts, and keeps what went wrong."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture.box import Box, warm_up
from tests.torture.shim import TOLD

SEED = 20261116
WORKERS = 2
LONGEST = 2000
MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Case:
    """Known by its name alone, from which it can be run again."""

    sweep: str
    name: str


@dataclass
class Counted:
    """What a sweep has seen."""

    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.done.items()))
        return f"{sum(self.done.values())} cases ({kinds}), {len(self.wrong)} wrong"


Run = Callable[[Case, Path], tuple[str, list[str]]]


def share(cases: Iterable[Case]) -> list[Case]:
    """SHARE=1/4: the first of every four."""
    part, _, of = os.environ.get("SHARE", "1/1").partition("/")
    return list(cases)[int(part) - 1 :: int(of)]


def sample(cases: list[Case], count: int | None, seed: int) -> list[Case]:
    """Some of every kind, in the order in which they lie."""
    if count is None or count >= len(cases):
        return cases
    kinds: dict[str, list[Case]] = {}
    for case in cases:
        kinds.setdefault(case.name.rpartition(":")[0], []).append(case)
    drawn, rng = set(), random.Random(seed)
    while len(drawn) < count:
        for found in kinds.values():
            if len(drawn) < count:
                drawn.add(rng.choice(found))
    return [case for case in cases if case in drawn]


def sweep(cases: list[Case], run: Run, folder: Path, workers: int = WORKERS) -> Counted:
    """All cases, in so many forked processes, each in a folder of its own."""
    counted = Counted()
    pipes = [_started(cases[number::workers], run, folder / str(number)) for number in range(workers)]
    for pid, read in pipes:
        with os.fdopen(read) as lines:
            for line in lines:
                name, kind, problems = json.loads(line)
                counted.done[kind] += 1
                for problem in problems:
                    counted.wrong.append(f"{name}: {problem}")
                    print(f"  {name}: {problem}"[:LONGEST], file=sys.stderr, flush=True)
        os.waitpid(pid, 0)
    missing = len(cases) - sum(counted.done.values())
    if missing:
        counted.wrong.append(f"{missing} cases were not run")
    return counted


def _started(cases: list[Case], run: Run, folder: Path) -> tuple[int, int]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        TOLD.begin()
        folder.mkdir(parents=True, exist_ok=True)
        with os.fdopen(write, "w") as told:
            for case in cases:
                try:
                    kind, problems = run(case, folder)
                except BaseException:
                    kind, problems = "failed", [traceback.format_exc()]
                told.write(json.dumps([f"{case.sweep} {case.name}", kind, problems]) + "\n")
                told.flush()
        os._exit(0)
    os.close(write)
    return pid, read


def in_memory() -> Path:
    """Where nothing has to survive."""
    return Path(tempfile.mkdtemp(prefix="torture-", dir=MEMORY if MEMORY.is_dir() else None))


def campaign(
    name: str, cases: Callable[[Path], Iterable[Case]], run: Run, *, count: int | None, only: str | None, workers: int
) -> bool:
    """A sweep from its cases to its line; whether all is well."""
    folder, began = in_memory(), time.monotonic()
    seed = int(os.environ.get("TORTURE_SEED", SEED))
    try:
        warm_up(Box(folder / "warm"))
        if only is not None:
            counted = sweep([Case(name, only)], run, folder, 1)
        else:
            counted = sweep(sample(share(cases(folder)), count, seed), run, folder, workers)
        print(f"{name}: {counted}; seed {seed}, {time.monotonic() - began:.0f} s", flush=True)
        if only is not None:
            print(f"  its folder: {folder}")
        return not counted.wrong
    finally:
        if only is None:
            shutil.rmtree(folder, ignore_errors=True)
