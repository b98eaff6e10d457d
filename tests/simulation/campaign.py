"""Schedules by the number, and what is counted of them."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.simulation.schedule import Template, Told, simulate

BATCH = 250


@dataclass
class Counted:
    schedules: int = 0
    passed_over: int = 0
    """In which no fault fired: they do not count."""
    interleavings: set[bytes] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    executors: int = 0
    turns: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, told: Told) -> None:
        if not told.counts:
            self.passed_over += 1
        else:
            self.schedules += 1
            self.interleavings.add(told.interleaving)
        self.faults += told.faults
        self.executors += told.executors
        self.turns += told.turns
        if told.wrong:
            self.wrong.append("\n  ".join([f"seed {told.seed}: {'; '.join(told.wrong)}", *told.log]))

    def merge(self, other: Counted) -> None:
        self.schedules += other.schedules
        self.passed_over += other.passed_over
        self.interleavings |= other.interleavings
        self.faults += other.faults
        self.executors += other.executors
        self.turns += other.turns
        self.wrong += other.wrong

    def __str__(self) -> str:
        faults = ", ".join(f"{count} × {what}" for what, count in sorted(self.faults.items()))
        return (
            f"{self.schedules} schedules, {len(self.interleavings)} distinct interleavings, {self.executors} "
            f"executors, {self.turns} turns, {self.faults.total()} faults ({faults}), {len(self.wrong)} wrong; "
            f"{self.seconds:.0f} s"
        )


@contextmanager
def quiet() -> Iterator[None]:
    """What is left of the dead is collected some time: nobody wants to hear of that."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
    finally:
        gc.collect()
        sys.unraisablehook = before


def some(count: int, seed: int) -> Counted:
    """So many that count, from `seed` on; or one, to see it again."""
    counted, template = Counted(), Template()
    try:
        with quiet():
            for number in range(seed, seed + count):
                counted.add(simulate(number, template))
    finally:
        template.close()
    return counted


def campaign(count: int, seed: int, *, workers: int = 0) -> Counted:
    """In as many processes as there are processors, unless `workers` says otherwise."""
    began, counted = time.monotonic(), Counted()
    number, workers = seed, workers or os.cpu_count() or 1
    with ProcessPoolExecutor(workers) as pool:
        while counted.schedules < count and not counted.wrong:
            size = min(BATCH, -(-(count - counted.schedules) // workers))
            for found in pool.map(some, [size] * workers, [number + size * each for each in range(workers)]):
                counted.merge(found)
            number += size * workers
            if number % (BATCH * 20) < BATCH * workers:
                print(f"{counted.schedules} of {count}", flush=True)
    counted.seconds = time.monotonic() - began
    return counted
