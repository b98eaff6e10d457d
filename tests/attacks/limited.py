"""Runs a piece of Python in a child, and tells how much memory and CPU time it took."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

CEILING = 3 << 30
"""Far above what is allowed: a hole is measured and not hidden by an allocation that fails."""
MEASURE = """
import json, resource, sys, time
given = json.loads(sys.argv[1])
def told():
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = before.ru_utime + before.ru_stime
    result = act(given)
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([result, after.ru_maxrss // 1024, after.ru_utime + after.ru_stime - began]))
told()
"""


@dataclass(frozen=True)
class Measured:
    result: Any
    peak_mb: int
    cpu_s: float


def measured(act: str, given: object = None, *, seconds: int = 60) -> Measured:
    """`act` defines `act(given)`, which returns what JSON can say. Imports before it count as memory, not as time."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (CEILING, CEILING))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    done = subprocess.run(
        [sys.executable, "-c", act + MEASURE, json.dumps(given)],
        preexec_fn=limit,  # nothing else runs in this process that could hold a lock
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}"
    return Measured(*json.loads(done.stdout.splitlines()[-1]))
