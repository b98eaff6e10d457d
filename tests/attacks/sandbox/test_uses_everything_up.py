"""A command uses up memory, processes, disk or time until the host stands still."""

from __future__ import annotations

import time
import uuid
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from reenact import StructuredOutcome
from tests.attacks.sandbox.probes import PROBED, UNCONFINED, marked, python

PRIVATE = "held = bytearray(300 << 20)\nfor at in range(0, len(held), 4096): held[at] = 1\nprint('escaped')"
SHARED = """
import mmap, time
held = mmap.mmap(-1, 300 << 20)
for at in range(0, len(held), 4096):
    held[at] = 1
time.sleep(0.7)
print('escaped')
"""
MANY = """
import os, time
ready, tell = os.pipe()
wait, hold = os.pipe()
for _ in range(6):
    if os.fork() == 0:
        os.close(hold)
        held = bytearray(50 << 20)
        for at in range(0, len(held), 4096):
            held[at] = 1
        os.write(tell, b"x")
        os.read(wait, 1)
        os._exit(0)
for _ in range(6):
    os.read(ready, 1)
time.sleep(0.7)
print('escaped')
"""
PROCESSES = """
import os, time
for _ in range(100):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
time.sleep(1)
print('escaped')
"""
THREADS = """
import threading, time
for _ in range(100):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(0.7)
print('escaped', flush=True)
import os; os._exit(0)
"""
FILE = "open('large', 'wb').write(bytes(20 << 20)); print('escaped')"
SPARSE = "open('sparse', 'wb').truncate(20 << 20); print('escaped')"
CORE = "import resource; assert resource.getrlimit(resource.RLIMIT_CORE)[1]; print('escaped')"
RAISE = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
open('large', 'wb').write(bytes(20 << 20))
print('escaped')
"""
STUBBORN = """
import signal, time
for number in range(1, 32):
    number in (9, 19) or signal.signal(number, signal.SIG_IGN)
end = time.monotonic() + 1.5
while time.monotonic() < end:
    pass
print('escaped')
"""
BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"

USED_UP = {
    "memory of its own": (PRIVATE, {"memory_mb": 128}),
    "shared memory": (SHARED, {"memory_mb": 128}),
    "memory of many processes": (MANY, {"memory_mb": 128}),
    "processes": (PROCESSES, {"processes": 50}),
    "threads": (THREADS, {"processes": 50}),
    "a large file": (FILE, {"file_mb": 8}),
    "a large sparse file": (SPARSE, {"file_mb": 8}),
    "core dumps": (CORE, {}),
    "limits, which it raises first": (RAISE, {"file_mb": 8}),
}


def escaped(outcome: StructuredOutcome) -> bool:
    output: Any = outcome.output
    return outcome.ok and "escaped" in output["stdout"]


@cache
def succeeds_unconfined(code: str) -> bool:
    with TemporaryDirectory() as folder:
        return escaped(python(UNCONFINED, Path(folder), code))


@pytest.mark.parametrize("sandbox", PROBED)
@pytest.mark.parametrize("what", USED_UP)
def test_uses_up(sandbox: str, tmp_path: Path, what: str) -> None:
    code, limits = USED_UP[what]
    assert succeeds_unconfined(code), "the control must succeed"
    outcome = python(sandbox, tmp_path, code, **limits)
    assert not escaped(outcome), outcome


@pytest.mark.parametrize("sandbox", PROBED)
def test_is_told_which_limit_it_passed(sandbox: str, tmp_path: Path) -> None:
    outcome = python(sandbox, tmp_path, SHARED, memory_mb=128)
    assert outcome.code == "ERR_QUOTA_EXCEEDED"
    assert "raise memory_mb" in outcome.message


@pytest.mark.parametrize("sandbox", PROBED)
def test_sets_off_a_fork_bomb(sandbox: str, tmp_path: Path) -> None:
    mark = f"reenact-bomb-{uuid.uuid4().hex}"
    began = time.monotonic()
    outcome = python(sandbox, tmp_path, BOMB, mark, timeout_ms=3_000)
    assert not outcome.ok, outcome
    assert marked(mark) == []
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("sandbox", PROBED)
def test_takes_all_the_time_there_is(sandbox: str, tmp_path: Path) -> None:
    assert succeeds_unconfined(STUBBORN), "the control must succeed"
    began = time.monotonic()
    assert not escaped(python(sandbox, tmp_path, STUBBORN, timeout_ms=700))
    assert time.monotonic() - began < 10
