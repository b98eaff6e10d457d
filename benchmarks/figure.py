"""One measured figure and what it is held to."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A ratio or a size. `least` and `most` are guards; a figure without one is shown and judges nothing.

    NaN is what could not be measured: it holds nothing.
    """

    name: str
    value: float
    unit: str = "×"
    least: float | None = None
    most: float | None = None
    note: str = ""

    @property
    def guard(self) -> str:
        if self.least is not None:
            return f"≥ {self.least:g} {self.unit}"
        return "" if self.most is None else f"≤ {self.most:g} {self.unit}"

    @property
    def holds(self) -> bool:
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    @property
    def verdict(self) -> str:
        if math.isnan(self.value):
            return "not measured"
        return ("holds" if self.holds else "FAILS") if self.guard else ""


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Race(msgspec.Struct, frozen=True):
    """How long each side took, round by round. Sides take turns, so that a busy moment meets all of them."""

    rounds: tuple[tuple[float, ...], ...]

    def best(self, side: int) -> float:
        """The round that others disturbed least."""
        return min(times[side] for times in self.rounds)

    def ratio(self, over: int, under: int) -> float:
        """How many times longer `over` takes than `under`, each at its best."""
        return self.best(over) / self.best(under)

    def median_ratio(self, over: int, under: int) -> float:
        return statistics.median(times[over] / times[under] for times in self.rounds)


def race(sides: Sequence[Callable[[], float]], rounds: int) -> Race:
    """Each side gives the seconds that it took; who begins changes from round to round."""
    found = []
    for number in range(rounds):
        times = [0.0] * len(sides)
        for turn in range(len(sides)):
            side = (turn + number) % len(sides)
            times[side] = sides[side]()
        found.append(tuple(times))
    return Race(tuple(found))
