"""Schedules by the number, and what is counted of them."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.simulation.machine import one_machine
from tests.simulation.schedule import Template, Told, simulate

BATCH = 250
ROUND = 10
"""So many batches for each process, then it is told how far it came."""


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
    """What is left of the dead is collected when all is over: nobody wants to hear of that."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with one_machine():
            yield
        gc.collect()
    finally:
        sys.unraisablehook = before


def some(count: int, seed: int) -> Counted:
    """So many, from `seed` on."""
    with quiet():
        return each_of(range(seed, seed + count))


def each_of(seeds: range) -> Counted:
    counted, template = Counted(), Template()
    try:
        for seed in seeds:
            counted.add(simulate(seed, template))
    finally:
        template.close()
    return counted


def in_a_child(seeds: range) -> Counted:
    """Which ends with it: nobody sweeps behind it."""
    sys.unraisablehook = lambda _: None
    with one_machine():
        return each_of(seeds)


def campaign(count: int, seed: int, share: tuple[int, int] = (1, 1)) -> Counted:
    """So many that count, in batches of seeds from `seed` on; of a share (K, N) the Kth of every N batches.

    A share has its part of the machine's processors, one at least.
    """
    began, counted = time.monotonic(), Counted()
    part, shares = share
    wanted, workers = -(-count // shares), max(1, (os.cpu_count() or 1) // shares)
    size = min(BATCH, -(-wanted // workers))
    batches = (range(first, first + size) for first in itertools.count(seed + (part - 1) * size, shares * size))
    with get_context("fork").Pool(workers, maxtasksperchild=1) as pool:
        while counted.schedules < wanted and not counted.wrong:
            round_of = list(itertools.islice(batches, min(ROUND * workers, -(-(wanted - counted.schedules) // size))))
            for found in pool.imap_unordered(in_a_child, round_of):
                counted.merge(found)
            print(f"{counted.schedules} of {wanted}; the last seed was {round_of[-1][-1]}", flush=True)
    counted.seconds = time.monotonic() - began
    return counted
