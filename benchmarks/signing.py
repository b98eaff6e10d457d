"""What it costs that results are signed: runs of ten steps, as they are, and without what is signed with their end.

Instructions where valgrind is found, else CPU time. `python -P benchmarks/signing.py COUNT [unsigned]` is the work.
"""

from __future__ import annotations

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
from reenact.store.sqlite import appending

STEPS, FEW, MANY = 10, 5, 25
MOST = 1.05


def measure() -> list[Figure]:
    signed, unsigned = (per_run(*words) for words in ((), ("unsigned",)))
    unit = "instructions" if shutil.which("valgrind") else "µs of CPU"
    says = f"{signed:,.0f} beside {unsigned:,.0f} {unit} a run of {STEPS} steps"
    return [
        Figure(name="a run whose result is signed, beside one without", value=signed / unsigned, most=MOST, note=says)
    ]


def per_run(*words: str) -> float:
    """What one more run costs."""
    return (cost(MANY, *words) - cost(FEW, *words)) / (MANY - FEW)


def cost(count: int, *words: str) -> float:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "counted"
        tool = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={file}"]
        command = [*(tool if shutil.which("valgrind") else ()), sys.executable, "-m", "benchmarks.signing", str(count)]
        done = subprocess.run([*command, *words], check=True, stdout=subprocess.PIPE, text=True)
        return total(file) if file.exists() else float(done.stdout)


def work(count: int, *, signs: bool) -> None:
    if not signs:
        appending.sign_at_once = lambda *_: None  # type: ignore[assignment]
        appending.notes = SimpleNamespace(write=lambda *_: None)  # type: ignore[assignment]
    began = time.process_time()
    with TemporaryDirectory() as folder:
        runtime = Runtime(f"sqlite:///{folder}/signing.db", skills=[note])
        for _ in range(count):
            assert plan(runtime, STEPS)
        runtime.close()
    print((time.process_time() - began) * 1e6)


if __name__ == "__main__":
    work(int(sys.argv[1]), signs="unsigned" not in sys.argv)
