"""`python -m benchmarks compare COMMIT`: is the present no slower than a commit, per plan step and per session call?

Both versions are taken out of git and do the same work (`compared.py`) with this interpreter, in turns. What a step
costs is the difference between many and few of them, divided by how many more they were: what it takes to start falls
out. Counted are instructions, by valgrind's callgrind, where it is found; else seconds of CPU, which a busy machine
disturbs. Exit 1 where the median of the rounds says that the present costs more than 1.05 × the commit.
"""

from __future__ import annotations

import argparse
import compileall
import io
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.figure import Figure, Race

HOME = Path(__file__).resolve().parents[1]
WORK = HOME / "benchmarks" / "compared.py"
MOST = 1.05
BEFORE, NOW = 0, 1
NAMES = {"plan": "plan step", "session": "session call"}

Costs = Mapping[str, float]
"""What one step, or call, of each kind costs."""


class Way(NamedTuple):
    """How a step is measured: with which sizes, how often, and in what."""

    unit: str
    sizes: tuple[int, int]
    rounds: int
    measure: Callable[[Path, tuple[int, int]], Costs]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks compare", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("commit", help="what the present is compared with")
    parser.add_argument("--worktree", action="store_true", help="the present is the working tree as it is, not HEAD")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time although valgrind is there")
    parser.add_argument("--rounds", type=int, help="default: 3 with valgrind, 7 with CPU time")
    parser.add_argument("--sizes", type=int, nargs=2, metavar=("FEW", "MANY"), help="steps of the two pieces of work")
    asked = parser.parse_args(arguments)
    way = CPU if asked.cpu or shutil.which("valgrind") is None else INSTRUCTIONS
    sizes = tuple(asked.sizes) if asked.sizes else way.sizes
    if sizes[0] >= sizes[1] or (asked.rounds is not None and asked.rounds < 1):
        parser.error("FEW is less than MANY, and there is at least one round")
    try:
        with TemporaryDirectory() as folder:
            before, now = check_out(asked.commit, Path(folder) / "before"), HOME / "src"
            if not asked.worktree:
                now = check_out("HEAD", Path(folder) / "now")
            rounds = list(in_turns(way, (before, now), asked.rounds or way.rounds, sizes))
    except (LookupError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found = figures(rounds, way.unit)
    for figure in found:
        print(line(figure))
    return 0 if all(figure.holds for figure in found) else 1


def check_out(commit: str, folder: Path) -> Path:
    """The folder of the sources of a commit, compiled, so that neither side compiles while it is measured."""
    found = subprocess.run(["git", "archive", commit, "src"], cwd=HOME, capture_output=True, check=False)
    if found.returncode:
        raise LookupError(f"git has no commit {commit} with sources: {found.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    compileall.compile_dir(folder, quiet=1)
    return folder / "src"


def in_turns(way: Way, sides: tuple[Path, Path], rounds: int, sizes: tuple[int, int]) -> Iterator[tuple[Costs, Costs]]:
    """(costs before, costs now) of each round; who begins changes from round to round."""
    for number in range(rounds):
        order = sides if number % 2 == 0 else sides[::-1]
        measured = {side: way.measure(side, sizes) for side in order}
        yield measured[sides[0]], measured[sides[1]]


def figures(rounds: Sequence[tuple[Costs, Costs]], unit: str) -> list[Figure]:
    """For each kind the median of the rounds' ratios; the two sides of a round met the same minute."""
    found = []
    for kind, name in NAMES.items():
        race = Race(tuple((before[kind], now[kind]) for before, now in rounds))
        before_cost, now_cost = (statistics.median(costs[side] for costs in race.rounds) for side in (BEFORE, NOW))
        note = f"{now_cost:,.0f} beside {before_cost:,.0f} {unit}, {len(rounds)} rounds"
        found.append(
            Figure(name=f"{name}, beside the commit", value=race.median_ratio(NOW, BEFORE), most=MOST, note=note)
        )
    return found


def line(figure: Figure) -> str:
    return f"{figure.name:<32} {figure.value:.3f} ×  {figure.guard}  {figure.verdict:<6} {figure.note}"


def instructions(sources: Path, sizes: tuple[int, int]) -> Costs:
    """Instructions of a step and of a call; nearly the same however busy the machine is."""
    with TemporaryDirectory() as folder:
        tool = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={folder}/%p"]
        return per_step({(kind, size): total(Path(folder) / pid) for kind, size, pid, _ in work(sources, sizes, tool)})


def microseconds(sources: Path, sizes: tuple[int, int]) -> Costs:
    """CPU time of a step and of a call."""
    return per_step({(kind, size): float(cpu_s) * 1e6 for kind, size, _, cpu_s in work(sources, sizes)})


def work(sources: Path, sizes: tuple[int, int], tool: Sequence[str] = ()) -> Iterator[tuple[str, int, str, str]]:
    """(kind, size, process number, seconds of CPU) of each piece of work that a version did."""
    command = [*tool, sys.executable, "-P", str(WORK), str(sources), *map(str, sizes)]
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    for kind, size, pid, cpu_s in map(str.split, done.stdout.splitlines()):
        yield kind, int(size), pid, cpu_s


def total(file: Path) -> int:
    """What callgrind counted of one process."""
    found = re.search(r"^totals: (\d+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{file}: callgrind wrote no total"
    return int(found[1])


def per_step(costs: Mapping[tuple[str, int], float]) -> Costs:
    """What one more step costs, from what few and many of them cost."""
    few, many = (choose(size for _, size in costs) for choose in (min, max))
    return {kind: (costs[kind, many] - costs[kind, few]) / (many - few) for kind in NAMES}


INSTRUCTIONS = Way("instructions", sizes=(50, 150), rounds=3, measure=instructions)
CPU = Way("µs of CPU", sizes=(200, 1000), rounds=7, measure=microseconds)
