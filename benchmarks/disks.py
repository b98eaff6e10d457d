"""How the plan beside its raw loop fares on slower disks: each flush is held up by a given time, for both alike.

Not one of the guards: it needs `strace`, which injects the delay, and says what to expect elsewhere than here.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys

from benchmarks.figure import Figure
from benchmarks.plan import PLAN, RAW, stored_rows, turns
from benchmarks.plans import workplace

DELAYS_US = (0, 250, 500, 1000, 2000)


def measure(steps: int = 600, rounds: int = 3) -> list[Figure]:
    return [on_a_disk(delay, steps, rounds) for delay in DELAYS_US]


def on_a_disk(delay_us: int, steps: int, rounds: int) -> Figure:
    """Measured by a process of its own, whose flushes come back later."""
    strace = shutil.which("strace")
    if strace is None:
        raise SystemExit("error: the benchmark `disks` needs strace: install it, or leave this part out")
    traced = [strace, "--seccomp-bpf", "-f", "-qq", "-o", os.devnull, "-e", "trace=fdatasync"]
    delayed = ["-e", f"inject=fdatasync:delay_exit={delay_us}"] if delay_us else []
    here = [sys.executable, "-m", "benchmarks.disks", str(steps), str(rounds)]
    done = subprocess.run([*traced, *delayed, *here], check=True, capture_output=True, text=True)
    plan_us, raw_us = map(float, done.stdout.split())
    return Figure(
        name=f"plan beside a raw loop, a flush {delay_us / 1000:g} ms later",
        value=raw_us / plan_us,
        note=f"{plan_us:.0f} and {raw_us:.0f} µs",
    )


def microseconds(steps: int, rounds: int) -> tuple[float, float]:
    """Of a step and of a row, in the middle round."""
    with workplace() as folder:
        rows = stored_rows(folder / "rows.db", steps)
        times = [turns(folder / f"round-{number}", rows, in_a_thread=False) for number in range(rounds)]
    plan_us, raw_us = (statistics.median(each[side] for each in times) / steps * 1e6 for side in (PLAN, RAW))
    return plan_us, raw_us


if __name__ == "__main__":
    print(*microseconds(int(sys.argv[1]), int(sys.argv[2])))
