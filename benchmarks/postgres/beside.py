"""Steps on a server with `fsync=on`, in turns: beside DBOS, beside a transaction for each step, beside a raw loop."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from typing import Self

from tests.postgres.server import Server

from benchmarks.figure import Figure, Race, race

OURS, ALONE, DBOS, RAW = "reenact", "a transaction per step", "dbos", "raw loop"
STEPS = 200
RUNS, STEPS_OF_MANY = 50, 20
LEAST_ONE, LEAST_TOGETHER, LEAST_MANY = 2.0, 1.6, 3.5
MOST_WAL = 4000
WARM = 30


class Side:
    """A process that does steps when it is told to."""

    def __init__(self, name: str, url: str) -> None:
        command = [sys.executable, "-m", "benchmarks.postgres.sides", name, url]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = self._line()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._process.communicate(timeout=30)
        self._process.kill()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def seconds(self, runs: int, steps: int) -> float:
        """NaN where it could not be done: that is no measurement."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{runs} {steps}\n")
            self._process.stdin.flush()
            return float(self._line())
        except (OSError, ValueError):
            return math.nan


def measure(server: Server, rounds: int) -> Iterator[Figure]:
    with ExitStack() as stack:
        sides = {}
        for name in (OURS, ALONE, RAW, DBOS):
            if name != DBOS or find_spec("dbos") is not None:
                sides[name] = stack.enter_context(Side(name, database(server, name)))
                sides[name].seconds(1, WARM)
        yield from one_run(sides, rounds)
        yield from many_runs(sides, rounds)
        for name in (OURS, DBOS):
            if name in sides:
                yield wal(server, name, sides[name])


def database(server: Server, name: str) -> str:
    """One for each, so that nobody's rows are in anybody's way."""
    called = f"of {name}".replace(" ", "_")
    server.add_database(called)
    return server.url(database=called)


def taken(sides: dict[str, Side], names: tuple[str, ...], rounds: int, runs: int, steps: int) -> Race:
    """NaN for a side that is not there."""

    def turn(name: str) -> float:
        return sides[name].seconds(runs, steps) if name in sides else math.nan

    return race([lambda name=name: turn(name) for name in names], rounds)  # type: ignore[misc]


def beside(name: str, times: Race, at: int, least: float | None, per: int, says: str) -> Figure:
    """How many times as long the side at `at` takes, by the median of the rounds."""
    ours, theirs = (sorted(each[side] for each in times.rounds)[len(times.rounds) // 2] for side in (0, at))
    note = (
        f"{ours / per * 1e6:,.0f} and {theirs / per * 1e6:,.0f} µs a step; {says}" if not math.isnan(theirs) else says
    )
    return Figure(name=name, value=times.median_ratio(at, 0), least=least, note=note)


def one_run(sides: dict[str, Side], rounds: int) -> Iterator[Figure]:
    times = taken(sides, (OURS, DBOS, RAW), rounds, 1, STEPS)
    yield beside("one run, beside DBOS", times, 1, LEAST_ONE, STEPS, version())
    yield beside("one run, beside a raw loop", times, 2, None, STEPS, "a row of 2,500 bytes, inserted and committed")


def many_runs(sides: dict[str, Side], rounds: int) -> Iterator[Figure]:
    times, steps = taken(sides, (OURS, ALONE, DBOS), rounds, RUNS, STEPS_OF_MANY), RUNS * STEPS_OF_MANY
    yield beside(f"{RUNS} in flight, beside a transaction per step", times, 1, LEAST_TOGETHER, steps, "ours both")
    yield beside(f"{RUNS} in flight, beside DBOS", times, 2, LEAST_MANY, steps, version())


def version() -> str:
    if find_spec("dbos") is None:
        return "DBOS is not installed: pip install 'reenact[bench]'"
    from importlib.metadata import version as version_of

    return f"dbos {version_of('dbos')}"


def wal(server: Server, name: str, side: Side) -> Figure:
    """A run of 50 steps, and one of 250: what the other 200 wrote."""

    def written(steps: int) -> int:
        ((before,),) = server.execute("SELECT pg_current_wal_insert_lsn() - '0/0'")
        took = side.seconds(1, steps)
        ((after,),) = server.execute("SELECT pg_current_wal_insert_lsn() - '0/0'")
        return 0 if math.isnan(took) else int(after - before)

    few = written(50)
    value = (written(250) - few) / 200
    most = MOST_WAL if name == OURS else None
    return Figure(name=f"WAL a step, {name}", value=value or math.nan, unit="B", most=most)
