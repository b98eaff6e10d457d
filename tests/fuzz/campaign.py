"""Fuzzes every parser, pattern and decoder, each in a process with 512 MB of memory and 2 s of CPU time per input.

`python -m tests.fuzz.campaign [TARGET …]`: all of `targets.TARGETS`, or those that are named. FUZZ_SECONDS is for each
target (the default shares 55 minutes among them), FUZZ_SEED makes it another campaign, SHARE=1/4 takes every fourth
target. An input depends on seed, target and number alone; what fails is saved, and printed with the command that runs
it again: `python -m tests.fuzz.campaign --again TARGET FILE`.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from tests.fuzz.mutating import made
from tests.fuzz.targets import DECLARED, TARGETS, Target

MEMORY = 512 << 20
CPU_S = 2.0
SILENT_S = 90
"""Of wall-clock time: a child that says nothing for so long is stuck where no signal reaches it."""
WHOLE_S = 55 * 60
SEED = "1"
SHORT_S, SHORT_INPUTS = 0.35, 300
FOUND = Path(tempfile.gettempdir()) / "reenact-fuzz-found"


class TooSlow(BaseException):
    """Past the limit of CPU time; not to be caught by what is fuzzed."""


@dataclass
class Counted:
    inputs: int = 0
    refused: int = 0
    slowest_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.inputs:,} inputs, {self.refused:,} refused, slowest {self.slowest_s:.2f} s"


def limit_memory() -> None:
    """Beside what the process has before it reads anything: its code, and what the targets are made of."""
    there = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        resource.setrlimit(kind, (there + MEMORY, there + MEMORY))


@contextmanager
def limited_cpu() -> Iterator[None]:
    def stop(_number: int, _frame: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run_one(target: Target, data: bytes, counted: Counted) -> str | None:
    """What is wrong with how the target took it; None where nothing is."""
    began, problem = time.process_time(), None
    try:
        with limited_cpu():
            target.act(data)
    except (*DECLARED, *target.errors):
        counted.refused += 1
    except TooSlow:
        problem = f"took more than {CPU_S:.0f} s"
    except BaseException as error:  # whatever it is, it is a finding
        problem = f"{type(error).__name__}: {str(error)[:200]}"
    taken = time.process_time() - began
    counted.inputs += 1
    counted.slowest_s = max(counted.slowest_s, taken)
    return problem or (f"took {taken:.1f} s" if taken > CPU_S else None)


def input_number(target: str, seed: str, number: int) -> bytes:
    return made(Random(f"{seed}/{target}/{number}"), corpus_of(target))


@cache
def corpus_of(target: str) -> Sequence[bytes]:
    return TARGETS[target].corpus()


def fuzz(name: str, seed: str, seconds: float, most: int, told: mmap.mmap | None = None) -> tuple[Counted, str | None]:
    """As many inputs as fit; ends with the first that fails."""
    counted, target = Counted(), TARGETS[name]
    corpus_of(name)
    end, number = time.monotonic() + seconds, 0
    while number < most and time.monotonic() < end:
        if told is not None:
            told[:8] = number.to_bytes(8, "big")
        data = input_number(name, seed, number)
        problem = run_one(target, data, counted)
        if problem is not None:
            return counted, f"input {number}: {problem}\n  {saved(name, seed, number, data)}"
        number += 1
    return counted, None


def saved(name: str, seed: str, number: int, data: bytes) -> str:
    FOUND.mkdir(exist_ok=True)
    file = FOUND / f"{name}-{seed}-{number}"
    file.write_bytes(data)
    return f"again: python -m tests.fuzz.campaign --again {name} {file}"


# -- one child for each target -----------------------------------------------------------------------------------------


def child(name: str, seed: str, seconds: float, place: str) -> int:
    faulthandler.enable()
    corpus_of(name)  # making it may take more than an input may
    limit_memory()
    with Path(place).open("r+b") as file, mmap.mmap(file.fileno(), 8) as told:
        counted, problem = fuzz(name, seed, seconds, sys.maxsize, told)
    print(f"{name}: {counted}" + (f"\n  FOUND {problem}" if problem else ""), flush=True)
    return 1 if problem else 0


def watched(name: str, seed: str, seconds: float) -> bool:
    """Whether a child went through its time without finding anything; one that dies or hangs found something."""
    with tempfile.NamedTemporaryFile() as told:
        told.write(bytes(8))
        told.flush()
        command = [sys.executable, "-m", "tests.fuzz.campaign", "--child", name, seed, str(seconds), told.name]
        with subprocess.Popen(command) as process:  # our own code
            before, since = b"", time.monotonic()
            while process.poll() is None:
                time.sleep(0.2)
                now = Path(told.name).read_bytes()
                if now != before:
                    before, since = now, time.monotonic()
                elif time.monotonic() - since > SILENT_S:
                    process.kill()
        if process.returncode in (0, 1):
            return process.returncode == 0
        number = int.from_bytes(Path(told.name).read_bytes(), "big")
        print(f"{name}: FOUND input {number} ended the process with {process.returncode}")
        print("  " + saved(name, seed, number, input_number(name, seed, number)), flush=True)
        return False


def short(names: list[str]) -> int:
    """All in one process, each for a part of a second: for `make test`."""
    for name in names:
        corpus_of(name)
    limit_memory()
    inputs, began, failed = 0, time.monotonic(), 0
    for name in names:
        counted, problem = fuzz(name, SEED, SHORT_S, SHORT_INPUTS)
        inputs += counted.inputs
        print(f"{name}: {counted}" + (f"\n  FOUND {problem}" if problem else ""))
        failed += problem is not None
    print(f"{len(names)} targets, seed {SEED}, {inputs:,} inputs, {time.monotonic() - began:.0f} s; {failed} failed")
    return 1 if failed else 0


def again(name: str, file: str) -> int:
    corpus_of(name)
    limit_memory()
    counted = Counted()
    problem = run_one(TARGETS[name], Path(file).read_bytes(), counted)
    print(problem or f"{name}: {counted}")
    return 1 if problem else 0


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--child"]:
        return child(arguments[1], arguments[2], float(arguments[3]), arguments[4])
    if arguments[:1] == ["--short"]:
        return short(arguments[1:])
    if arguments[:1] == ["--again"]:
        return again(arguments[1], arguments[2])
    part, _, parts = os.environ.get("SHARE", "1/1").partition("/")
    names = [*(arguments or TARGETS)][int(part) - 1 :: int(parts)]
    seed = os.environ.get("FUZZ_SEED") or SEED
    seconds = float(os.environ.get("FUZZ_SECONDS") or WHOLE_S / len(TARGETS))
    began = time.monotonic()
    failed = [name for name in names if not watched(name, seed, seconds)]
    took = time.monotonic() - began
    print(f"{len(names)} targets, seed {seed}, {seconds:.0f} s each, {took:.0f} s in all; failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
