"""Commands that check a session's work: nothing of them outlives what started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from reenact import Runtime
from tests.attacks.sandbox.probes import marked

TREE = """
import os, sys, time
for depth in range(3):
    if os.fork() == 0:
        os.setsid()
if len(sys.argv) > 2:
    sys.exit(3)
time.sleep(600)
"""
"""Eight processes, most of them in sessions of their own."""
HOST = """
import sys
from reenact import Runtime
with Runtime(sys.argv[1]).session() as s:
    s.verify([f"{sys.executable} {sys.argv[2]} {sys.argv[3]}"])
"""


@pytest.fixture
def mark() -> Iterator[str]:
    mark = f"reenact-check-{uuid.uuid4().hex}"
    yield mark
    for pid in marked(mark):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "tree.py"
    path.write_text(TREE)
    return path


def wait_until(mark: str, *, count: int, least: bool = False) -> bool:
    deadline = time.monotonic() + 30
    while (len(marked(mark)) < count) if least else (len(marked(mark)) != count):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_nothing_outlives_a_host_that_is_killed(tmp_path: Path, script: Path, mark: str) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path / "store.db"), str(script), mark])
    try:
        assert wait_until(mark, count=8, least=True)
    finally:
        host.kill()
        host.wait()
    assert wait_until(mark, count=0), marked(mark)


def test_nothing_outlives_a_time_limit_or_the_command_itself(tmp_path: Path, script: Path, mark: str) -> None:
    with Runtime(str(tmp_path / "store.db")).session() as s:
        assert s.verify([f"{sys.executable} {script} {mark}"], timeout_s=2) == [124]
        assert marked(mark) == []
        assert s.verify([f"{sys.executable} {script} {mark} ends"]) == [3]
        assert marked(mark) == []


def test_a_command_is_run_as_its_host_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the environment and the folder of the host, from its PATH, however much it prints."""
    monkeypatch.setenv("REENACT_TEST_CHECK", "seen")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()
    own = tmp_path / "bin" / "own-check"
    own.write_text('#!/bin/sh\ntest "$REENACT_TEST_CHECK" = seen && test -f here && head -c 9000000 /dev/zero\n')
    own.chmod(0o755)
    (tmp_path / "here").touch()
    (tmp_path / "not-executable").touch()
    runtime = Runtime(str(tmp_path / "store.db"))
    with runtime.session(context={"workspace": str(tmp_path)}) as s:
        commands = ["own-check", "./bin/own-check", "./not-executable", "./nowhere", "nowhere", "sh -c 'exit 7'"]
        assert s.verify(commands) == [0, 0, 127, 127, 127, 7]
