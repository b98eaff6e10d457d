"""A command leaves a process behind: in a session of its own, after a time limit, when its host is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.sandbox.probes import PROBED, UNCONFINED, marked, python

DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    for depth in range(3):
        if os.fork() == 0:
            os.setsid()
    os.closerange(0, 3)
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", sys.argv[1]])
time.sleep(float(sys.argv[2]))
"""
"""Eight processes, in sessions of their own, that nobody's parent waits for."""

HOST = """
import sys
from pathlib import Path
from tests.attacks.sandbox.probes import python
from tests.attacks.sandbox.test_outlives_the_call import DAEMON
python(sys.argv[1], Path(sys.argv[2]), DAEMON, sys.argv[3], "600")
"""


@pytest.fixture
def mark() -> Iterator[str]:
    mark = f"reenact-survivor-{uuid.uuid4().hex}"
    yield mark
    for pid in marked(mark):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(params=PROBED)
def sandbox(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def wait_until(mark: str, *, alive: bool) -> bool:
    deadline = time.monotonic() + 30
    while bool(marked(mark)) != alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_daemon_outlives_its_command(sandbox: str, tmp_path: Path, mark: str) -> None:
    assert python(UNCONFINED, tmp_path, DAEMON, mark, "0.5").ok
    assert marked(mark), "the control must succeed"
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)
    assert wait_until(mark, alive=False)
    assert python(sandbox, tmp_path, DAEMON, mark, "0.5").ok
    assert marked(mark) == []


def test_a_daemon_outlives_the_time_limit(sandbox: str, tmp_path: Path, mark: str) -> None:
    assert not python(UNCONFINED, tmp_path, DAEMON, mark, "600", timeout_ms=1500).ok
    assert marked(mark), "the control must succeed"
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)
    assert wait_until(mark, alive=False)
    assert not python(sandbox, tmp_path, DAEMON, mark, "600", timeout_ms=1500).ok
    assert marked(mark) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_daemon_outlives_its_host(sandbox: str, tmp_path: Path, mark: str, number: int) -> None:
    end_host(UNCONFINED, tmp_path, mark, number)
    time.sleep(0.5)
    assert marked(mark), "the control must succeed"
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)
    assert wait_until(mark, alive=False)
    end_host(sandbox, tmp_path, mark, number)
    assert wait_until(mark, alive=False)


def end_host(name: str, folder: Path, mark: str, number: int) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, name, str(folder), mark], stderr=subprocess.DEVNULL)
    # The host's own arguments carry the mark too, and so do its command's until it becomes a daemon.
    assert wait_until_daemons(mark)
    host.send_signal(number)
    host.wait()


def wait_until_daemons(mark: str) -> bool:
    deadline = time.monotonic() + 60
    while sum(is_daemon(pid) for pid in marked(mark)) < 8:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_daemon(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"time.sleep(600)" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
