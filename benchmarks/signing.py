"""What it costs that results are signed, and that seals are leaves of a log: runs of ten steps, without what is signed
with their end and without the log; with the one; and with both, where each run has a head of its own.

That is the most that the log can cost: runs that end within a quarter of a second share a head, and nobody waits for
it. Instructions where valgrind is found, else CPU time. `python -m benchmarks.signing COUNT KIND` is the work.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from benchmarks.compare import total
from benchmarks.compared import note, plan
from benchmarks.figure import Figure
from reenact import Runtime
from reenact.store.log import follower
from reenact.store.sqlite import appending

STEPS, FEW, MANY = 10, 5, 25
MOST = 1.05


KINDS = ("neither", "signed", "in a log")


def measure() -> list[Figure]:
    neither, signed, in_a_log = (per_run(kind) for kind in KINDS)
    unit = "instructions" if shutil.which("valgrind") else "µs of CPU"
    says = f"beside {neither:,.0f} {unit} a run of {STEPS} steps"
    return [
        Figure(
            name="a run whose result is signed, beside one without",
            value=signed / neither,
            most=MOST,
            note=f"{signed:,.0f} {says}",
        ),
        Figure(
            name="a run whose result is signed and has a head of the log, beside one without either",
            value=in_a_log / neither,
            most=MOST,
            note=f"{in_a_log:,.0f} {says}",
        ),
    ]


def per_run(kind: str) -> float:
    """What one more run costs."""
    return (cost(MANY, kind) - cost(FEW, kind)) / (MANY - FEW)


def cost(count: int, kind: str) -> float:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "counted"
        tool = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={file}"]
        command = [*(tool if shutil.which("valgrind") else ()), sys.executable, "-m", "benchmarks.signing"]
        env = {**os.environ, "PYTHONHASHSEED": "0"}  # else the two that are compared lay their dictionaries out apart
        done = subprocess.run([*command, str(count), kind], check=True, stdout=subprocess.PIPE, text=True, env=env)
        return total(file) if file.exists() else float(done.stdout)


def work(count: int, kind: str) -> None:
    follower.Follower.tell = lambda _: None  # type: ignore[method-assign]
    if kind == "neither":
        appending.sign_at_once = lambda *_: None  # type: ignore[assignment]
        appending.notes = SimpleNamespace(write=lambda *_: None)  # type: ignore[assignment]
    began = time.process_time()
    with TemporaryDirectory() as folder:
        runtime = Runtime(f"sqlite:///{folder}/signing.db", skills=[note])
        for _ in range(count):
            assert plan(runtime, STEPS)
            if kind == "in a log":
                head = runtime.store.log.advance()
                assert head is not None
        runtime.close()
    print((time.process_time() - began) * 1e6)


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2])
