"""Steps on a server with `fsync=on`, in turns: beside DBOS, beside a transaction for each step, beside a raw loop."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
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
        self.process = self._process.pid
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
        yield from processor_time(server, sides)
    for name in (OURS, DBOS):
        if name != DBOS or find_spec("dbos") is not None:
            yield wal(server, name)


def database(server: Server, name: str, what: str = "of") -> str:
    """One for each, so that nobody's rows are in anybody's way."""
    called = f"{what} {name}".replace(" ", "_")
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


def processor_time(server: Server, sides: dict[str, Side]) -> Iterator[Figure]:
    """What both processes and the server's spend on a step: it says the same on a busy machine."""

    def spent(side: Side, runs: int, steps: int) -> float:
        before = cpu_s([side.process, *server_processes(server)])
        took = side.seconds(runs, steps)
        used = cpu_s([side.process, *server_processes(server)]) - before
        return math.nan if math.isnan(took) else used / (runs * steps) * 1e6

    for says, runs, steps in (("one run", 1, STEPS), (f"{RUNS} in flight", RUNS, STEPS_OF_MANY)):
        ours = spent(sides[OURS], runs, steps)
        theirs = spent(sides[DBOS], runs, steps) if DBOS in sides else math.nan
        note = f"{ours:,.0f} and {theirs:,.0f} µs of CPU a step, the server's with it"
        yield Figure(name=f"the same in CPU: {says}, beside DBOS", value=theirs / ours, note=note)


def server_processes(server: Server) -> list[int]:
    return [server.pid, *(pid for (pid,) in server.execute("SELECT pid FROM pg_stat_activity WHERE pid IS NOT NULL"))]


def cpu_s(processes: list[int]) -> float:
    """User and system time; of children that have ended too."""
    ticks = 0
    for pid in processes:
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def wal(server: Server, name: str) -> Figure:
    """What 400 steps of one run wrote behind others, with nobody beside them."""

    def written(steps: int) -> float:
        ((before,),) = server.execute("SELECT pg_current_wal_insert_lsn()::text")
        took = side.seconds(1, steps)
        ((bytes_,),) = server.execute("SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", before)
        return math.nan if math.isnan(took) else float(bytes_)

    with Side(name, database(server, name, "WAL")) as side:
        side.seconds(1, WARM)
        server.execute("CHECKPOINT")
        few = written(100)
        value = (written(500) - few) / 400
    return Figure(name=f"WAL a step, {name}", value=value, unit="B", most=MOST_WAL if name == OURS else None)
